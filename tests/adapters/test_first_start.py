"""The examples that a first start puts into empty folders are good, offered to nobody, and put there once."""

import asyncio
import shutil
from pathlib import Path

import msgspec

from navi.adapters.profiles.folder import FolderProfiles
from navi.adapters.tools.toolbox import ToolPorts, Tools
from navi.bootstrap.first_start import put_examples
from navi.domain.agent.profile import Profile
from tests.support.tool_context import context_in


async def test_the_examples_are_offered_once_they_are_copied_and_not_before(tmp_path: Path) -> None:
    tools, profiles = tmp_path / "tools", tmp_path / "profiles"
    await asyncio.to_thread(put_examples, tools=tools, profiles=profiles)
    known = {entry.id for entry in await FolderProfiles(tmp_path / "none").all()}

    assert {entry.id for entry in await FolderProfiles(profiles).all()} == known
    assert await FolderProfiles(profiles).get("_example") is None

    shutil.copy(tools / "_example.py", tools / "example.py")
    shutil.copytree(profiles / "_example", profiles / "mine")

    mine = await FolderProfiles(profiles).get("mine")
    assert mine is not None
    assert mine.system_prompt.startswith("This is what the agent of the profile is told")
    written = msgspec.json.decode((profiles / "mine" / "config.json").read_bytes())
    prompts = {"system_prompt", "subagent_system_prompt"}
    assert {*written, *prompts} == {*Profile.__struct_fields__}
    (tmp_path / "text.txt").write_text("a b A")
    async with Tools(ToolPorts(), own_tools=tools, environment={"PATH": "/bin"}) as box:
        assert box.problems == ()
        offered = {
            tool.description.name for tool in box.all() if tool.description.source == "example.py"
        }
        assert offered == {"time_in_words", "word_count"}
        counting = box.find("word_count")
        assert counting is not None
        arguments = {"path": "text.txt", "at_least": 2}
        assert (await counting.run(arguments, context_in(tmp_path))).output == '{"a":2}'


def test_folders_in_which_there_is_something_are_left_alone(tmp_path: Path) -> None:
    tools, profiles = tmp_path / "tools", tmp_path / "profiles"
    tools.mkdir()
    (tools / "mine.py").touch()
    profiles.write_text("no folder")

    put_examples(tools=tools, profiles=profiles)

    assert [path.name for path in tools.iterdir()] == ["mine.py"]
    assert profiles.read_text() == "no folder"
