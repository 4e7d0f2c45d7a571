"""The tool ``web_search``, with a SearXNG that is none."""

import os
from collections.abc import Generator
from pathlib import Path

import msgspec
import pytest

from navi.adapters.tools.web.network import CheckedNetwork, Deadline
from navi.adapters.tools.web.process import WebProcesses
from navi.adapters.tools.web.searxng import found, server_network
from navi.adapters.tools.web.web_search import WebSearchTool
from navi.adapters.tools.web.wire import Answer, RequestFailed, Results, Search
from navi.domain.vocabulary.events import Json, JsonObject
from navi.ports.tools import ToolResult
from tests.contracts.tool import ToolContract
from tests.support.tool_context import context_in
from tests.support.web_server import WebServer, answer, redirect, web_server

RESULTS = {
    "query": "tides",
    "results": [
        {"url": "https://a.example/1", "title": "Tide\ntables", "content": "High  water", "engine": "x"},
        {"url": "javascript:alert(1)", "title": "No address", "content": "of the web"},
        {"url": "https://b.example/2", "title": None, "content": None},
    ],
    "answers": [{"answer": "04:12", "url": None}],
}  # fmt: skip


def as_json(value: Json, status: int = 200) -> bytes:
    return answer(msgspec.json.encode(value), kind="application/json", status=status)


@pytest.fixture
def web() -> Generator[WebServer, None, None]:
    with web_server({"/search": as_json(RESULTS), "/searx/search": as_json(RESULTS)}) as server:
        yield server


class TestAsATool(ToolContract):
    @pytest.fixture
    def tool(self, web: WebServer) -> WebSearchTool:
        return WebSearchTool(WebProcesses({"PATH": os.defpath}), server=web.url)

    @pytest.fixture
    def arguments(self) -> JsonObject:
        return {"query": "tides"}


def search(server: str, query: str = "tides") -> Answer:
    def network(deadline: Deadline) -> CheckedNetwork:
        return server_network(deadline, server)

    return found(Search(server=server, query=query), network)


def failed(why: str) -> RequestFailed:
    return RequestFailed(outcome="error", why=f"The SearXNG of SEARXNG_URL: {why}")


async def test_what_is_found_is_fenced_as_material(web: WebServer) -> None:
    tool = WebSearchTool(WebProcesses({"PATH": os.defpath}), server=web.url)

    result = await tool.run({"query": "tides"}, context_in(Path()))

    about, begin, *lines, end = result.output.splitlines()
    assert (result.outcome, "It is material" in about) == ("ok", True)
    assert begin.removeprefix("BEGIN ") == end.removeprefix("END ")
    assert lines == [
        "04:12",
        "1. Tide tables",
        "   https://a.example/1",
        "   High water",
        "2. https://b.example/2",
        "   https://b.example/2",
    ]


def test_it_is_asked_for_json(web: WebServer) -> None:
    search(web.url, "tides & ebbs ü")

    assert web.requests[0].startswith(
        b"GET /search?q=tides+%26+ebbs+%C3%BC&format=json HTTP/1.1\r\n"
    )


def test_it_may_stand_below_a_path_and_want_a_password(web: WebServer) -> None:
    got = search(f"{web.url.replace('//', '//me:p%40ss@')}/searx/")

    assert isinstance(got, Results)
    assert b"GET /searx/search?" in web.requests[0]
    assert b"Authorization: Basic bWU6cEBzcw==\r\n" in web.requests[0]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (answer(status=403), "403 Forbidden; it gives no JSON: its settings.yml has to name json under search, formats"),
        (answer(status=500), "500 Internal Server Error; its own log may say more"),
        (answer(b"<html>", kind="text/html"), "it did not answer in JSON: SEARXNG_URL may be the address of something else"),
        (answer(b"[" * 100_000), "it did not answer in JSON: SEARXNG_URL may be the address of something else"),
        (redirect("/search"), "it redirects: SEARXNG_URL is to be the address that it has"),
        (redirect("http://10.0.0.1/"), "it redirects: SEARXNG_URL is to be the address that it has"),
    ],
    ids=["403", "500", "a page", "nested", "a redirect", "a redirect to elsewhere"],
)  # fmt: skip
def test_what_it_does_wrong_says_what_to_do(web: WebServer, given: bytes, why: str) -> None:
    web.answers["/search"] = given

    assert search(web.url) == failed(why)


def test_where_it_is_not_there_that_is_said() -> None:
    assert search("http://127.0.0.1:1") == failed("Connection refused")


@pytest.mark.parametrize(
    ("silent", "words"),
    [([], "Nothing was found."), ([["brave", "CAPTCHA"], "qwant"], "Nothing was found. These engines did not answer: brave: CAPTCHA, qwant")],
    ids=["nothing", "silent engines"],
)  # fmt: skip
def test_nothing_is_an_answer(web: WebServer, silent: list[Json], words: str) -> None:
    web.answers["/search"] = as_json({"results": [], "unresponsive_engines": silent})

    assert search(web.url) == Results(text=words)


def test_a_result_has_a_bound_in_all_of_its_parts(web: WebServer) -> None:
    one = {"url": f"http://a/{'u' * 9_000}", "title": "t" * 9_000, "content": "c" * 9_000}
    web.answers["/search"] = as_json({"results": [one] * 50})

    got = search(web.url)

    assert isinstance(got, Results)
    assert len(got.text) < 30_000
    assert got.text.count("http://a/") == 10


async def test_an_error_is_the_result_of_the_call() -> None:
    tool = WebSearchTool(WebProcesses({"PATH": os.defpath}), server="http://127.0.0.1:1")

    result = await tool.run({"query": "x"}, context_in(Path()))

    assert result == ToolResult(
        outcome="error", output="The SearXNG of SEARXNG_URL: Connection refused"
    )
