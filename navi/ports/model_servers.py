"""Which model server is asked next."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from navi.domain.model_calls.model_choice import Failure
from navi.ports.language_model import Capacity, LanguageModel


class Target(Struct, frozen=True, kw_only=True):
    """A model to ask, on a server, after waiting ``delay`` seconds."""

    model: LanguageModel
    model_name: str
    delay: float


class ModelServers(Protocol):
    """The model servers in order of preference, with cooldowns after failures."""

    async def choose(self, models: Sequence[str], failures: Sequence[Failure]) -> Target | None:
        """What to ask next; None when it is better to give up.

        Args:
            models: names in order of preference; empty for the default model.
            failures: of the tries of this call so far, in order (``model_choice.failure_of``).

        Raises:
            ModelFailure: the default model is wanted and no server tells one.
        """
        ...

    def failed(self, target: Target, failure: Failure) -> None:
        """Start the server's cooldown, if the failure is its own and it is not the only one."""
        ...

    def succeeded(self, target: Target) -> None:
        """End the server's cooldown."""
        ...

    async def default_model(self) -> str:
        """The model of profiles that name none.

        Raises:
            ModelFailure: no server tells one.
        """
        ...

    async def capacity(self, target: Target) -> Capacity:
        """The window and the slots to reckon with: as set, as the server says, else assumed.

        Both are always given. A profile that asks for a window of its own overrules this one.
        """
        ...
