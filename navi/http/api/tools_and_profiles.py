"""Routes of profiles and tools."""

from collections.abc import Collection

from litestar import Response, get
from msgspec import UNSET, Struct, UnsetType

from navi.domain.vocabulary.events import JsonObject
from navi.domain.vocabulary.ids import SessionId
from navi.http.requests.bodies import answer
from navi.http.requests.operation import operation
from navi.http.requests.services import Given, Services
from navi.ports.profiles import ProfileEntry, profile_error

NO_SESSION = "00000000-0000-0000-0000-000000000000"


class ProfileAnswer(Struct, frozen=True, kw_only=True):
    """A profile in its last good version.

    Attributes:
        model: the names that are tried, as the profile has them; null for the service's own.
        max_iterations: model calls that a turn may make; null for a profile that never was good.
        error: why the present version is not used, or which tools it names that there are not.
    """

    id: str
    name: str
    description: str
    model: str | tuple[str, ...] | None
    source: str
    max_iterations: int | None
    error: str | None


class CompressionAnswer(Struct, frozen=True, kw_only=True):
    """Whether contexts are compressed by themselves, and above which share of the window, 0 to 1."""

    enabled: bool
    threshold: float


class ProfileList(Struct, frozen=True, kw_only=True):
    """All profiles, in order of id."""

    profiles: tuple[ProfileAnswer, ...]
    compression: CompressionAnswer


class ToolAnswer(Struct, frozen=True, kw_only=True):
    """A tool; ``parameters`` is a JSON Schema object, ``source`` "built-in" or its file."""

    name: str
    description: str
    parameters: JsonObject
    safe_to_repeat: bool
    source: str


class UnavailableAnswer(Struct, frozen=True, kw_only=True):
    """A tool that cannot be offered, and why; ``source`` as of a tool, where a server offers it."""

    name: str
    reason: str
    source: str | UnsetType = UNSET


class ToolList(Struct, frozen=True, kw_only=True):
    """All tools, and those that should be there and are not."""

    tools: tuple[ToolAnswer, ...]
    unavailable: tuple[UnavailableAnswer, ...]


@get("/profiles", opt=operation(access="read", answers={200: ProfileList}))
async def get_profiles(services: Given) -> Response[bytes]:
    """The profiles, broken ones too."""
    await require_log(services)
    await services.tools.look()
    entries = await services.profiles.all()
    there = {
        *(tool.description.name for tool in services.tools.all()),
        *(tool.name for tool in services.tools.unavailable()),
    }
    settings = services.compression
    return answer(
        ProfileList(
            profiles=tuple(_profile(entry, there) for entry in entries),
            compression=CompressionAnswer(enabled=settings.enabled, threshold=settings.threshold),
        )
    )


@get("/tools", opt=operation(access="read", answers={200: ToolList}))
async def get_tools(services: Given) -> Response[bytes]:
    """The tools that sessions may be offered."""
    await require_log(services)
    await services.tools.look()
    described = (tool.description for tool in services.tools.all())
    secrets = services.secrets
    return answer(
        ToolList(
            tools=tuple(
                ToolAnswer(
                    name=tool.name,
                    description=secrets.mask(tool.description).text,
                    parameters=secrets.mask_json(tool.parameters),
                    safe_to_repeat=tool.safe_to_repeat,
                    source=tool.source,
                )
                for tool in described
            ),
            unavailable=unavailable_tools(services),
        )
    )


def unavailable_tools(services: Services) -> tuple[UnavailableAnswer, ...]:
    """The tools that cannot be offered now."""
    return tuple(
        UnavailableAnswer(name=one.name, reason=one.reason, source=one.source)
        for one in services.tools.unavailable()
    )


async def require_log(services: Services) -> None:
    """Answer 503 while Postgres is unavailable, on every route but health.

    Raises:
        LogUnavailable: Postgres does not answer.
    """
    await services.event_log.head(SessionId(NO_SESSION))


def _profile(entry: ProfileEntry, there: Collection[str]) -> ProfileAnswer:
    profile = entry.profile
    return ProfileAnswer(
        id=entry.id,
        name=entry.id if profile is None else profile.name or entry.id,
        description="" if profile is None else profile.description,
        model=None if profile is None else profile.model,
        source=entry.source,
        max_iterations=None if profile is None else profile.max_iterations,
        error=profile_error(entry, there),
    )
