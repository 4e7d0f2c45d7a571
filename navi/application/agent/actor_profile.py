"""The profile of a session's agent, and of each of its subagents."""

import structlog
from msgspec.structs import replace

from navi.application.session.record import Record
from navi.domain.ids import SubagentId
from navi.domain.profile import DEFAULT_PROFILE, Profile
from navi.ports.profiles import Profiles

log = structlog.get_logger()

PROFILE_GONE = (
    "The profile {profile_id!r} of this session is not there any more, or is broken. Until the user "
    "puts it right or chooses another one you have no tools: answer without them, and say why."
)


async def profile_of(record: Record, profiles: Profiles) -> Profile:
    """The session's profile; the default one without any tool where it is gone."""
    return await _profile(record.session.profile_id, profiles)


async def profile_of_actor(
    record: Record, profiles: Profiles, subagent_id: SubagentId | None
) -> Profile:
    """The profile of the agent or of a subagent, reduced to what subagents get."""
    turn = record.session.turn
    if subagent_id is None or turn is None:
        return await profile_of(record, profiles)
    profile = await _profile(turn.actor(subagent_id).profile_id, profiles)
    return replace(
        profile,
        system_prompt=profile.subagent_system_prompt or profile.system_prompt,
        enabled_tools=profile.tools_of_subagents,
        planning_enabled=profile.subagent_planning_enabled,
    )


async def _profile(profile_id: str, profiles: Profiles) -> Profile:
    profile = await profiles.get(profile_id)
    if profile is None:
        log.warning("profile_missing", profile_id=profile_id)
        profile = await profiles.get(DEFAULT_PROFILE)
        assert profile is not None  # noqa: S101 - the default profile is part of the package
        # What it allowed is not known any more, and might have been less than any other allows.
        said = PROFILE_GONE.format(profile_id=profile_id)
        return replace(profile, system_prompt=said, enabled_tools=(), subagent_tools=())
    return profile
