"""The file that names MCP servers, as other clients write it and as people do."""

from typing import Any

import msgspec
import pytest

from navi.adapters.tools.mcp.config import (
    HttpServer,
    Problem,
    ServerEntry,
    ServersFile,
    StdioServer,
    parse_servers,
)

ENVIRONMENT = {"HOME": "/home/me", "TOKEN": "t0p-secret"}


def parsed(whole: Any) -> ServersFile:
    data = whole if isinstance(whole, bytes) else msgspec.json.encode(whole)
    return parse_servers(data, file="mcp.json", cwd="/etc/navi", environment=ENVIRONMENT)


def problem_with(**entry: Any) -> str:
    """What is said of an entry that is left out."""
    said = parsed({"mcpServers": {"it": entry}})
    assert said.servers == ()
    (problem,) = said.problems
    assert problem.name == "it"
    return problem.reason.removeprefix("mcp.json: ")


def test_a_program_and_an_address_as_other_clients_name_them() -> None:
    files = {"command": "npx", "args": ["-y", "x", "${HOME}/notes"], "env": {"KEY": "${TOKEN}"}}
    web = {"type": "http", "url": "https://mcp.example.com/mcp", "headers": {"X-Key": "${TOKEN}"}}

    said = parsed({"mcpServers": {"web": web, "files": files}})

    assert said == ServersFile(
        servers=(
            ServerEntry(
                name="files",
                id="files",
                at=StdioServer(
                    command="npx",
                    args=("-y", "x", "/home/me/notes"),
                    environment={"KEY": "t0p-secret"},
                    cwd="/etc/navi",
                ),
                variables={"HOME": "/home/me", "TOKEN": "t0p-secret"},
            ),
            ServerEntry(
                name="web",
                id="web",
                variables={"TOKEN": "t0p-secret"},
                at=HttpServer(url="https://mcp.example.com/mcp", headers={"X-Key": "t0p-secret"}),
            ),
        )
    )


def test_what_is_ours_of_an_entry() -> None:
    entry = {"command": "x", "trust": True, "tools": ["read"], "timeout": 5}

    (server,) = parsed({"servers": {"x": entry}}).servers

    assert (server.trust, server.tools, server.timeout) == (True, ("read",), 5.0)


def test_a_variable_may_be_named_as_others_do_and_have_a_default() -> None:
    args = ["${env:HOME}", "${NAME:-nobody}", "${TOKEN:-x}", "$HOME", "${EMPTY:-}"]

    (server,) = parsed({"mcpServers": {"x": {"command": "x", "args": args}}}).servers

    assert isinstance(server.at, StdioServer)
    assert server.at.args == ("/home/me", "nobody", "t0p-secret", "$HOME", "")


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({}, "has to have either a command or a url"),
        ({"command": "x", "url": "http://x"}, "has to have either a command or a url"),
        ({"command": 3}, "command is not a text"),
        ({"command": ""}, "command is empty"),
        ({"command": "x", "args": "-y"}, "args is not a list of texts"),
        ({"command": "x", "args": [1]}, "args is not a list of texts"),
        ({"command": "x", "env": {"A": 1}}, "env: 'A' is not a text"),
        ({"command": "x", "env": {"A=B": "1"}}, "env: 'A=B' cannot be set"),
        ({"command": "x", "env": {"A": "${MISSING}"}}, "env: the variable MISSING is not set"),
        ({"command": "${input:key}"}, "command: ${input:key} is not the name of a variable"),
        ({"url": "ftp://x"}, "url is not an http or https address"),
        ({"url": "http://["}, "url is not an http or https address"),
        ({"url": "http://x", "headers": {"A": "1\r\nB: 2"}}, "headers: 'A' cannot be sent"),
        (
            {"url": "http://x", "type": "sse"},
            "type sse is what servers had before streamable HTTP; it is not spoken here",
        ),
        ({"command": "x", "trust": "yes"}, "trust is neither true nor false"),
        ({"command": "x", "timeout": 0}, "timeout is not between 0 and 900 seconds"),
        ({"command": "x", "timeout": True}, "timeout is not a number of seconds"),
        ({"command": "x", "tools": "all"}, "tools is not a list of texts"),
    ],
)
def test_an_entry_with_a_fault_is_left_out_and_the_fault_said(
    entry: dict[str, Any], reason: str
) -> None:
    assert problem_with(**entry) == reason


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"{", "is not JSON: Input data was truncated"),
        (b"[]", 'has no object "mcpServers"'),
        (b"\xff", "is not JSON"),
        (b'{"mcpServers": []}', 'has no object "mcpServers"'),
        (b"[" * 100_000, "is not JSON"),
        (b" " * 2_000_000, "is larger than 1,048,576 bytes"),
    ],
)
def test_of_a_file_that_is_none_is_said_why(data: bytes, reason: str) -> None:
    (problem,) = parsed(data).problems

    assert problem.name == "mcp.json"
    assert problem.reason.startswith(reason)


def test_a_fault_costs_its_own_entry_only() -> None:
    said = parsed({"mcpServers": {"good": {"command": "x"}, "bad": 1, "off": {"disabled": True}}})

    assert [server.name for server in said.servers] == ["good"]
    assert said.problems == (Problem(name="bad", reason="mcp.json: is not an object"),)


def test_the_names_of_servers_become_the_beginnings_of_names_of_tools() -> None:
    names = ["GitHub", "my notes", "my_notes", "7zip", "a__b", "x" * 50, "___", "ümlaut"]

    said = parsed({"mcpServers": {name: {"command": "x"} for name in names}})

    ids = {server.name: server.id for server in said.servers}
    assert ids["GitHub"] == "GitHub"
    assert ids["7zip"] == "mcp_7zip"
    assert ids["a__b"] == "a_b"
    assert ids["my notes"] == "my_notes"
    assert ids["my_notes"].startswith("my_notes_")
    assert len(ids["x" * 50]) == 30
    assert len(set(ids.values())) == len(ids)
    assert [problem.name for problem in said.problems] == ["___"]
