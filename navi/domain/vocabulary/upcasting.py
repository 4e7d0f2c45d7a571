"""Upcast old payloads: one pure function for each step from a version to the next.

Stored bytes never change. Where a type's payload cannot be changed by a new field with a default, its
``V`` goes up, and a step from the version before stands here; a payload goes through as many steps as
it is old.
"""

from collections.abc import Callable, Mapping

from navi.domain.vocabulary.events import JsonObject

# The payload of the next version. The one given is the step's own; it may be changed in place.
Upcaster = Callable[[JsonObject], JsonObject]

# By type and the version that a step starts from.
UPCASTERS: Mapping[tuple[str, int], Upcaster] = {}
