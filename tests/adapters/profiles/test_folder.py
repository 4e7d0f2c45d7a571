from pathlib import Path

import pytest

from navi.adapters.profiles.folder import BUILT_IN, FolderProfiles
from navi.domain.agent.profile import Profile
from navi.ports.profiles import ProfileEntry


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "config.json").write_text('{"temperature": 0.5}')
    (folder / "system.md").write_text("Be brief.\n")
    return folder


PROFILES = ("assistant", "autonomous", "developer", "local", "researcher")
GOOD = Profile(temperature=0.5, system_prompt="Be brief.")


async def test_built_in_profiles_are_good_and_say_who_the_agent_is(tmp_path: Path) -> None:
    entries = await FolderProfiles(tmp_path / "missing").all()

    assert [(entry.id, entry.source, entry.error) for entry in entries] == [
        (name, "built-in", None) for name in PROFILES
    ]
    for entry in entries:
        assert entry.profile is not None
        assert entry.profile.name
        assert entry.profile.description
        assert entry.profile.system_prompt
        assert entry.profile.subagent_system_prompt


async def test_a_profile_is_its_folder(tmp_path: Path, mine: Path) -> None:
    profiles = FolderProfiles(tmp_path)

    assert await profiles.get("mine") == GOOD
    assert (await profiles.all())[4] == ProfileEntry(id="mine", profile=GOOD, source=str(mine))


async def test_an_edit_is_seen_at_the_next_call(tmp_path: Path, mine: Path) -> None:
    profiles = FolderProfiles(tmp_path)
    await profiles.get("mine")

    (mine / "config.json").write_text('{"temperature": 0.6}')

    assert await profiles.get("mine") == Profile(temperature=0.6, system_prompt="Be brief.")


async def test_while_a_file_is_broken_the_last_good_version_serves(
    tmp_path: Path, mine: Path
) -> None:
    profiles = FolderProfiles(tmp_path)
    await profiles.get("mine")

    for text, error in [
        ('{"temperature": "hot"}', "temperature: expected float | null, got str"),
        ('{"heat": 1}', "heat: is not known"),
    ]:
        (mine / "config.json").write_text(text)
        for _ in range(2):
            assert (await profiles.all())[4] == ProfileEntry(
                id="mine", profile=GOOD, source=str(mine), error=error
            )

    (mine / "config.json").write_text("{}")
    assert await profiles.get("mine") == Profile(system_prompt="Be brief.")


async def test_a_profile_that_never_was_good_is_shown_and_not_served(
    tmp_path: Path, mine: Path
) -> None:
    (mine / "config.json").write_text("{")
    profiles = FolderProfiles(tmp_path)

    entry = (await profiles.all())[4]

    assert (entry.id, entry.profile, entry.error is None) == ("mine", None, False)
    assert await profiles.get("mine") is None


async def test_a_file_of_the_user_takes_the_place_of_the_built_in_one(tmp_path: Path) -> None:
    (tmp_path / "assistant").mkdir()
    (tmp_path / "assistant" / "system.md").write_text("Be a pirate.")
    profiles = FolderProfiles(tmp_path)

    profile = await profiles.get("assistant")

    assert profile is not None
    assert (profile.name, profile.system_prompt) == ("Assistant", "Be a pirate.")


async def test_no_built_in_profile_takes_the_place_of_a_broken_folder(tmp_path: Path) -> None:
    (tmp_path / "assistant").mkdir()
    (tmp_path / "assistant" / "config.json").write_text("{")
    profiles = FolderProfiles(tmp_path)

    assert await profiles.get("assistant") is None
    [entry] = [entry for entry in await profiles.all() if entry.id == "assistant"]
    assert entry.error is not None


async def test_a_removed_folder_is_gone(tmp_path: Path, mine: Path) -> None:
    profiles = FolderProfiles(tmp_path)
    await profiles.get("mine")

    for path in mine.iterdir():
        path.unlink()

    assert await profiles.get("mine") is None


@pytest.mark.parametrize("name", ["", "..", "../mine", "a/b", "a\0b", "x" * 65, "nobody"])
async def test_what_is_no_profile_is_none(tmp_path: Path, mine: Path, name: str) -> None:
    assert await FolderProfiles(tmp_path / "mine").get(name) is None


async def test_a_file_that_is_too_large_is_refused(tmp_path: Path, mine: Path) -> None:
    (mine / "system.md").write_text("x" * 600_000)

    entry = (await FolderProfiles(tmp_path).all())[4]

    assert entry.error == "system.md: is larger than 524,288 bytes"


def test_built_in_profiles_are_part_of_the_package() -> None:
    assert BUILT_IN.is_dir()
