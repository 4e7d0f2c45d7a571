"""The tool ``skill``, over folders in the open format."""

import os
from pathlib import Path

import pytest

from navi.adapters.profiles.with_skills import with_skills
from navi.adapters.tools.skills.folder import FolderSkills
from navi.adapters.tools.skills.tool import SkillTool
from navi.domain.agent.profile import Profile
from navi.domain.vocabulary.events import Json, JsonObject
from navi.ports.tools import ToolResult
from tests.contracts.tool import ToolContract
from tests.support.tool_context import context_in

RELEASE = """\
---
name: release
description: >
  How we release a version.
  Use it when somebody asks for a release.
license: MIT
metadata:
  author: us
---

# Release

Read `references/steps.md` first.
"""


def write_skill(skills: Path, folder: str, text: str = RELEASE) -> Path:
    """The folder of a new skill."""
    directory = skills / folder
    directory.mkdir(parents=True)
    (directory / "SKILL.md").write_text(text)
    return directory


def named(name: str, description: str = "What it is for.") -> str:
    return f"---\nname: {name}\ndescription: {description}\n---\nDo it well.\n"


async def run(skills: Path, **arguments: Json) -> ToolResult:
    return await SkillTool(FolderSkills(skills)).run(arguments, context_in(skills))


class TestAsATool(ToolContract):
    @pytest.fixture
    def tool(self, tmp_path: Path) -> SkillTool:
        write_skill(tmp_path / "skills", "release")
        return SkillTool(FolderSkills(tmp_path / "skills"))

    @pytest.fixture
    def arguments(self) -> JsonObject:
        return {"name": "release"}


async def test_a_skill_is_read_without_its_front_matter_and_tells_of_its_files(
    tmp_path: Path,
) -> None:
    folder = write_skill(tmp_path, "release")
    (folder / "references").mkdir()
    (folder / "references" / "steps.md").write_text("1. Look twice.")

    assert (await run(tmp_path, name="release")).output == (
        "# Release\n\nRead `references/steps.md` first."
        "\n\nFiles of this skill, for the argument `file`:\n- references/steps.md"
    )
    assert await run(tmp_path, name="release", file="references/steps.md") == ToolResult(
        outcome="ok", output="1. Look twice."
    )


@pytest.mark.parametrize(
    "file", ["../secret.txt", "/etc/passwd", "references/../../secret.txt", "link", "inner/secret"]
)
async def test_what_lies_outside_a_skill_is_not_read(tmp_path: Path, file: str) -> None:
    (tmp_path / "secret.txt").write_text("the secret")
    folder = write_skill(tmp_path / "skills", "release")
    (folder / "link").symlink_to(tmp_path / "secret.txt")
    (folder / "inner").symlink_to(tmp_path)

    result = await run(tmp_path / "skills", name="release", file=file)

    assert result.outcome == "denied"
    assert "the secret" not in result.output


@pytest.mark.parametrize("file", ["no.md", "picture.png", "large.txt", "pipe", "references"])
async def test_a_file_that_cannot_be_read_is_an_error_that_says_why(
    tmp_path: Path, file: str
) -> None:
    folder = write_skill(tmp_path, "release")
    (folder / "references").mkdir()
    (folder / "picture.png").write_bytes(b"\x89PNG\xff")
    (folder / "large.txt").write_bytes(b"x" * 300_000)
    os.mkfifo(folder / "pipe")

    result = await run(tmp_path, name="release", file=file)

    assert result.outcome in ("error", "denied")
    assert file in result.output


async def test_a_skill_that_is_not_there_is_an_error_that_names_those_that_are(
    tmp_path: Path,
) -> None:
    write_skill(tmp_path, "release")

    result = await run(tmp_path, name="deploy")

    assert result == ToolResult(
        outcome="error", output="there is no skill 'deploy'; there are: release"
    )


def test_an_edit_is_seen_at_the_next_look(tmp_path: Path) -> None:
    folder = write_skill(tmp_path, "release", named("release", "Old."))
    skills = FolderSkills(tmp_path)
    assert [skill.description for skill in skills.look()] == ["Old."]

    (folder / "SKILL.md").write_text(named("release", "New words."))
    write_skill(tmp_path, "deploy", named("deploy"))

    assert [(s.name, s.description) for s in skills.look()] == [
        ("deploy", "What it is for."),
        ("release", "New words."),
    ]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("# Release", "front matter"),
        ("---\nname: release\n", "front matter"),
        ("---\nname: [\ndescription: x\n---\n", "not YAML"),
        ("---\n- release\n---\n", "no keys"),
        ("---\nname: release\n---\n", "description"),
        ("---\nname: 7\ndescription: x\n---\n", "name"),
        (named("x" * 65), "at most 64"),
        (named("release", "x" * 1_025), "at most 1,024"),
        ("---\nname: !!python/object/apply:os.system [id]\ndescription: x\n---\n", "not YAML"),
    ],
)
def test_a_broken_skill_is_left_out_and_said(tmp_path: Path, text: str, cause: str) -> None:
    write_skill(tmp_path, "release", text)
    write_skill(tmp_path, "whole", named("whole"))
    skills = FolderSkills(tmp_path)

    assert [skill.name for skill in skills.look()] == ["whole"]
    (problem,) = skills.problems
    assert problem.folder == "release"
    assert cause in problem.error


def test_two_skills_of_one_name_are_told_apart_by_the_first_folder(tmp_path: Path) -> None:
    write_skill(tmp_path, "a", named("release", "First."))
    write_skill(tmp_path, "b", named("release", "Second."))
    skills = FolderSkills(tmp_path)

    assert [skill.description for skill in skills.look()] == ["First."]
    assert [problem.folder for problem in skills.problems] == ["b"]


def test_a_missing_directory_has_no_skills(tmp_path: Path) -> None:
    assert FolderSkills(tmp_path / "none").look() == ()


def test_the_prompts_name_the_skills_where_the_tool_is_enabled(tmp_path: Path) -> None:
    write_skill(tmp_path, "release")
    skills = FolderSkills(tmp_path).look()
    profile = Profile(system_prompt="Be brief.", subagent_system_prompt="Report.")

    told = with_skills(profile, skills)

    line = "- release: How we release a version. Use it when somebody asks for a release."
    assert told.system_prompt.startswith("Be brief.")
    assert line in told.system_prompt
    assert line in told.subagent_system_prompt
    assert with_skills(profile, ()) == profile


def test_subagents_that_may_not_read_skills_are_not_told_of_them(tmp_path: Path) -> None:
    write_skill(tmp_path, "release")
    skills = FolderSkills(tmp_path).look()
    profile = Profile(subagent_system_prompt="Report.", subagent_tools=("filesystem",))

    assert with_skills(profile, skills).subagent_system_prompt == "Report."
