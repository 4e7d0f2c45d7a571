"""Which model is in use, and how large its window is, for commands."""

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from navi.adapters.llm import servers
from navi.adapters.llm.detect import Detected, detect
from navi.adapters.llm.servers import KnownCapacity
from navi.adapters.profiles.folder import FolderProfiles
from navi.adapters.system import SystemClock
from navi.application.reading.context_windows import ContextWindows
from navi.bootstrap.models import model_settings
from navi.domain.session.session import Session
from navi.domain.vocabulary.errors import ModelFailure
from navi.settings import Settings

MODEL_SECONDS = 3.0  # for a server to say which models it has


class Model(Struct, frozen=True, kw_only=True):
    """The model of profiles that name none.

    Attributes:
        name: None where no server tells one.
        trouble: why; None where there is a name.
        known: its window and slots; None where there is no name.
    """

    backend: str
    name: str | None
    trouble: str | None = None
    known: KnownCapacity | None = None

    @property
    def words(self) -> str:
        """For people."""
        if self.name is None:
            return f"{self.backend}: {self.trouble or 'no model'}"
        return self.name if self.name == self.backend else f"{self.name} on {self.backend}"

    @property
    def window_words(self) -> str | None:
        """Its window, and where that is from; None where nothing is known."""
        if self.known is None:
            return None
        return f"{self.known.context_window} tokens a call ({_source(self.known.window_from)})"

    @property
    def slots_words(self) -> str | None:
        """How many calls it is given at once, likewise."""
        if self.known is None:
            return None
        calls = "1 call" if self.known.slots == 1 else f"{self.known.slots} calls"
        return f"{calls} at once ({_source(self.known.slots_from)})"


async def model_in_use(models: Detected) -> Model:
    """What the servers offer at this moment."""
    try:
        async with asyncio.timeout(MODEL_SECONDS):
            name = await models.servers.default_model()
    except TimeoutError:
        return Model(backend=models.backend, name=None, trouble="it does not answer")
    except ModelFailure as failure:
        return Model(backend=models.backend, name=None, trouble=str(failure))
    target = await models.servers.choose((name,), ())
    known = None if target is None else await models.servers.known(target)
    return Model(backend=models.backend, name=name, known=known)


async def model_of(settings: Settings) -> tuple[Model, str]:
    """The model that a navi with these settings would use, and why this one.

    Raises:
        BadInput: a setting is not usable or missing; names it.
    """
    detected = await detect(await model_settings(settings), clock=SystemClock())
    try:
        return await model_in_use(detected), detected.reason
    finally:
        await detected.aclose()


async def context_windows(
    settings: Settings, sessions: Sequence[Session]
) -> tuple[int | None, ...]:
    """The windows of sessions, as a navi with these settings would say; servers are asked if need be."""
    known = tuple(session.context_window for session in sessions)
    if None not in known:
        return known
    detected = await detect(await model_settings(settings), clock=SystemClock())
    try:
        profiles = FolderProfiles(settings.profiles_dir)
        return await ContextWindows(profiles, detected.servers, SystemClock()).of(sessions)
    finally:
        await detected.aclose()


def _source(name: str) -> str:
    """Where a number is from, in words: a setting says so by its name."""
    match name:
        case servers.THE_SERVER:
            return "the server says so"
        case servers.ASSUMED:
            return "assumed: the server does not say"
        case _:
            return name
