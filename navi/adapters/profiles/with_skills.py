"""Profiles that tell the agent of the skills there are."""

import asyncio
from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from navi.adapters.gathered import Gathered
from navi.adapters.tools.skills.folder import FolderSkills, Skill
from navi.adapters.tools.skills.tool import SKILL
from navi.domain.agent.profile import Profile
from navi.domain.context.prompt import SEPARATOR
from navi.ports.profiles import ProfileEntry, Profiles

HEADING = (
    f"Skills: how to do certain tasks well. Before a task that one fits, read it with `{SKILL}`."
)


class ProfilesWithSkills:
    """The port ``Profiles``: those of another one, with names and descriptions of skills in the prompts.

    A profile that does not enable the tool ``skill`` is left as it is.
    """

    def __init__(self, profiles: Profiles, skills: FolderSkills) -> None:
        self._profiles = profiles
        self._skills = skills
        self._found = Gathered(self._look)

    async def get(self, profile_id: str) -> Profile | None:
        """The profile, in its last good version; None where there is none."""
        profile = await self._profiles.get(profile_id)
        if profile is None or not profile.enables(SKILL):
            return profile
        return with_skills(profile, await self._found.ask(SKILL))

    async def all(self) -> Sequence[ProfileEntry]:
        """All of them, as their owner wrote them."""
        return await self._profiles.all()

    async def _look(self, _: Collection[str]) -> Mapping[str, Sequence[Skill]]:
        return {SKILL: await asyncio.to_thread(self._skills.look)}


def with_skills(profile: Profile, skills: Sequence[Skill]) -> Profile:
    """The profile with a line for each skill at the end of its prompts."""
    if not skills:
        return profile
    listed = "\n".join((HEADING, *(f"- {skill.name}: {skill.description}" for skill in skills)))

    def extended(prompt: str) -> str:
        return SEPARATOR.join(part for part in (prompt.strip(), listed) if part)

    subagents = profile.tools_of_subagents
    reads = bool(profile.subagent_system_prompt) and (subagents is None or SKILL in subagents)
    return replace(
        profile,
        system_prompt=extended(profile.system_prompt),
        subagent_system_prompt=extended(profile.subagent_system_prompt)
        if reads
        else profile.subagent_system_prompt,
    )
