"""Which model answers, as far as it can be told."""

import asyncio

from msgspec import Struct

from navi.adapters.llm.detect import Detected, detect
from navi.adapters.system import SystemClock
from navi.bootstrap.models import model_settings
from navi.domain.errors import ModelFailure
from navi.settings import Settings

MODEL_SECONDS = 3.0  # for a server to say which models it has


class Model(Struct, frozen=True, kw_only=True):
    """The model of profiles that name none.

    Attributes:
        name: None where no server tells one.
        trouble: why; None where there is a name.
    """

    backend: str
    name: str | None
    trouble: str | None = None

    @property
    def words(self) -> str:
        """For people."""
        if self.name is None:
            return f"{self.backend}: {self.trouble or 'no model'}"
        return self.name if self.name == self.backend else f"{self.name} on {self.backend}"


async def model_in_use(models: Detected) -> Model:
    """What the servers offer at this moment."""
    try:
        async with asyncio.timeout(MODEL_SECONDS):
            return Model(backend=models.backend, name=await models.servers.default_model())
    except TimeoutError:
        return Model(backend=models.backend, name=None, trouble="it does not answer")
    except ModelFailure as failure:
        return Model(backend=models.backend, name=None, trouble=str(failure))


async def model_of(settings: Settings) -> tuple[Model, str]:
    """The model that a navi with these settings would use, and why this one.

    Raises:
        BadInput: a setting is not usable or missing; names it.
    """
    detected = await detect(await model_settings(settings), clock=SystemClock())
    try:
        return await model_in_use(detected), detected.reason
    finally:
        await detected.servers.aclose()
