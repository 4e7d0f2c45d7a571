"""What a person is shown of a call before it is allowed: made without looking anything up."""

import asyncio
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from navi.adapters.tools.memory import MemoryTool
from navi.adapters.tools.skills.folder import FolderSkills
from navi.adapters.tools.skills.tool import SkillTool
from navi.adapters.tools.view_image import ViewImageTool
from navi.adapters.tools.web.process import WebProcesses
from navi.adapters.tools.web.web_fetch import WebFetchTool
from navi.adapters.tools.web.web_search import WebSearchTool
from navi.domain.vocabulary.events import JsonObject
from navi.ports.tools import Previewed, Tool, ToolContext

PROCESSES = WebProcesses({"PATH": os.defpath})
ANYWHERE = "Reaches public addresses only, and what NAVI_WEB_ALLOW lists, at each redirect too (5 at most)."
METADATA = (
    "It would be refused: 169.254.169.254 is link-local; only public addresses, and what "
    "NAVI_WEB_ALLOW lists, can be reached"
)


class Nothing:
    """The protocol ``Remembering``, which a preview does not ask."""

    async def save(self, text: str, context: ToolContext) -> Any:
        raise AssertionError(text)

    async def search(self, query: str, context: ToolContext) -> Any:
        raise AssertionError(query)

    async def forget(self, memory_id: str, context: ToolContext) -> bool:
        raise AssertionError(memory_id)


async def preview(tool: Tool, arguments: JsonObject, workspace: Path = Path()) -> str:
    assert isinstance(tool, Previewed)
    assert tool.check(arguments) is None
    return await tool.preview(arguments, workspace)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://Example.COM/a b?q=ä", f"GET http://example.com/a%20b?q=%C3%A4\nHost: example.com\n{ANYWHERE}"),
        ("https://bücher.example:8443", f"GET https://xn--bcher-kva.example:8443/\nHost: xn--bcher-kva.example:8443\n{ANYWHERE}"),
        ("http://wiki.lan/x", "GET http://wiki.lan/x\nHost: wiki.lan\nReaches wherever that name leads to: NAVI_WEB_ALLOW lists it."),
        ("http://0x0a010203/", "GET http://10.1.2.3/\nHost: 10.1.2.3\nReaches an address that NAVI_WEB_ALLOW lists."),
        ("http://1.1.1.1", "GET http://1.1.1.1/\nHost: 1.1.1.1\nReaches a public address."),
        ("http://0xa9fea9fe/latest", METADATA),
        ("http://me:secret@example.com", "It would be refused: an address with a user name or a password in it is not asked for"),
        ("nonsense", "It would go wrong: 'nonsense' is no address: it begins with http:// or https://"),
    ],
)  # fmt: skip
async def test_of_a_page_the_request_is_shown_and_where_it_may_go(url: str, shown: str) -> None:
    tool = WebFetchTool(PROCESSES, allowed="wiki.lan 10.1.0.0/16")

    assert await preview(tool, {"url": url}) == shown


async def test_no_name_is_looked_up_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[object] = []

    def look_up(*of: object, **_: object) -> None:
        looked_up.append(of)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)

    told = await preview(
        WebFetchTool(PROCESSES, allowed=""), {"url": "http://your-secret.example/", "start": 9000}
    )

    assert "Reaches public addresses only, at each redirect too" in told
    assert told.endswith("\nText from character 9,000 on.")
    assert looked_up == []


async def test_of_a_search_the_address_is_shown_without_credentials() -> None:
    tool = WebSearchTool(PROCESSES, server="http://me:s3cret@127.0.0.1:8888/searx/")

    told = await preview(tool, {"query": "tides & tables"})

    assert told.splitlines()[0] == (
        "GET http://127.0.0.1:8888/searx/search?q=tides+%26+tables&format=json"
    )
    assert "s3cret" not in told


async def test_of_a_picture_the_file_is_shown_or_why_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "chart.png").write_bytes(bytes(2_000))
    (tmp_path / "link.png").symlink_to("/etc/hostname")
    os.mkfifo(tmp_path / "pipe.png")
    paths = ("chart.png", "none.png", "../x.png", "link.png", "pipe.png")

    async with asyncio.timeout(60):
        told = [await preview(ViewImageTool(), {"path": path}, tmp_path) for path in paths]

    assert (
        told[0] == "The model is shown chart.png (2,000 bytes), scaled down and without metadata."
    )
    assert told[1] == "It would go wrong: none.png: No such file or directory"
    assert all(each.startswith("It would be refused: ") for each in told[2:])


async def test_of_a_skill_the_text_is_shown_that_the_model_would_read(tmp_path: Path) -> None:
    (tmp_path / "release").mkdir()
    (tmp_path / "release" / "SKILL.md").write_text(
        "---\nname: release\ndescription: How.\n---\nTag it.\n"
    )
    tool = SkillTool(FolderSkills(tmp_path))

    read = await preview(tool, {"name": "release"})
    outside = await preview(tool, {"name": "release", "file": "../../etc/passwd"})

    assert read == "The model reads SKILL.md of the skill release:\n\nTag it."
    assert outside.startswith("It would be refused: ")


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({"action": "save", "text": "likes tea"}, "Remember in all sessions of the user:\nlikes tea"),
        ({"action": "search", "query": "tea"}, "Search the memories for: tea"),
        ({"action": "forget", "id": "x"}, "Forget the memory x, and erase its text wherever it is quoted."),
    ],
)  # fmt: skip
async def test_of_a_memory_what_becomes_of_it_is_shown(arguments: JsonObject, shown: str) -> None:
    assert await preview(MemoryTool(Nothing()), arguments) == shown
