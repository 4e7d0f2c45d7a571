"""Tell a ``HEAD`` from the ``GET`` as which it is answered: for answers without an end."""

from collections.abc import Mapping
from typing import Any

HEAD_ONLY = "navi.head"  # in the scope of a request


def is_head_only(scope: Mapping[str, Any]) -> bool:
    """Whether nobody reads the body of the answer."""
    return HEAD_ONLY in scope
