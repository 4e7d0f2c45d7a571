"""What ``navi doctor`` says of tools, with a running navi and without one."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from navi.adapters.tools.own_tools.wire import LoadProblem
from navi.cli.service.doctor_log import signed_finding
from navi.cli.service.doctor_servers import place_of
from navi.cli.service.doctor_tools import (
    mcp_findings,
    price_findings,
    profile_findings,
    tool_findings,
)
from navi.cli.service.finding import Finding
from navi.cli.shared.offered_tools import McpServerStatus, Offered, mcp_servers
from navi.domain.agent.profile import Profile
from navi.ports.profiles import ProfileEntry
from navi.ports.tools import ToolDescription, UnavailableTool

TODO = ToolDescription(
    name="todo", description="", parameters={}, safe_to_repeat=False, source="built-in"
)
FORECAST = replace(TODO, name="forecast", source="weather.py")
BROKEN = LoadProblem(file="broken.py", error="SyntaxError")


def warned(text: str) -> Finding:
    return Finding(name="tools", state="warn", text=text)


def test_prices_that_are_wrong_are_told_and_none_are_no_finding(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    assert price_findings(path) == []

    path.write_text('{"m": {"prompt": 1, "completion": 2, "currency": "EUR"}}')
    assert price_findings(path) == [Finding(name="prices", state="ok", text=f"1 in {path}")]

    path.write_text('{"m": {"prompt": "much"}}')
    [wrong] = price_findings(path)
    assert wrong.state == "warn"
    assert wrong.text.startswith(f"{path} is ignored: ")
    assert "prompt" in wrong.text


def test_without_a_running_navi_the_files_are_looked_at() -> None:
    assert tool_findings((), (TODO, FORECAST), None) == [
        Finding(name="tools", state="ok", text="1 tool of your own beside navi's")
    ]
    assert tool_findings((BROKEN,), (TODO,), None) == [
        Finding(name="tools", state="fail", text="broken.py: SyntaxError")
    ]


def test_what_the_running_navi_offers_is_what_there_is() -> None:
    assert tool_findings((), (TODO, FORECAST), (FORECAST, TODO)) == [
        Finding(name="tools", state="ok", text="2 tools are offered by the running navi")
    ]


def test_the_tools_of_each_mcp_server_are_counted_and_what_is_missing_is_said() -> None:
    read = replace(TODO, name="files__read", source="mcp:files")
    write = replace(read, name="files__write")

    starting = UnavailableTool(name="web", reason="it is starting", source="mcp:web")
    nameless = UnavailableTool(name="files: x", reason="no schema", source="mcp:files")
    no_code = UnavailableTool(name="code_exec", reason="no sandbox")
    offered = Offered((TODO, read, write), (starting, nameless, no_code))

    assert mcp_findings(offered) == [
        Finding(name="MCP server", state="ok", text="files: 2 tools"),
        Finding(name="MCP", state="fail", text="web: it is starting"),
        Finding(name="MCP", state="fail", text="files: x: no schema"),
    ]
    assert mcp_servers(offered) == (
        McpServerStatus(
            name="files", state="up", tools=2, reason=None, left_out=("files: x: no schema",)
        ),
        McpServerStatus(name="web", state="down", tools=0, reason="it is starting", left_out=()),
    )


def test_a_file_that_came_went_or_changed_since_the_start_is_named() -> None:
    changed = replace(FORECAST, description="For a week.")

    assert tool_findings((), (TODO, FORECAST), (TODO,)) == [
        warned(
            "weather.py: the running navi does not offer forecast, started with other settings "
            "or another version"
        )
    ]
    assert tool_findings((), (TODO,), (TODO, FORECAST, replace(FORECAST, name="climate"))) == [
        warned("weather.py: the running navi still offers climate, forecast, not there any more")
    ]
    assert tool_findings((), (TODO, changed), (TODO, FORECAST)) == [
        warned(
            "weather.py: the running navi offers forecast as last loaded there, not as it is now"
        )
    ]


def test_a_broken_file_is_one_finding_that_says_what_the_running_navi_does() -> None:
    broken = LoadProblem(file="weather.py", error="SyntaxError")
    in_part = LoadProblem(file="todo.py", error="f: no", whole=False)

    assert tool_findings((broken, in_part), (TODO,), (TODO, FORECAST)) == [
        Finding(
            name="tools",
            state="fail",
            text="weather.py: SyntaxError; the running navi goes on with its last good version",
        ),
        Finding(name="tools", state="fail", text="todo.py: f: no"),
    ]
    assert tool_findings((broken,), (TODO,), (TODO,)) == [
        Finding(name="tools", state="fail", text="weather.py: SyntaxError")
    ]


def test_a_profile_that_names_no_tool_fails_and_one_of_a_server_that_is_not_up_does_not() -> None:
    typo = ProfileEntry(id="typo", profile=Profile(enabled_tools=("tood",)), source="mine")
    away = ProfileEntry(
        id="away", profile=Profile(enabled_tools=("github__search",)), source="mine"
    )
    broken = ProfileEntry(id="broken", profile=None, source="mine", error="is not JSON")

    assert profile_findings((typo, away, broken), {"todo", "github"}) == (
        Finding(name="profiles", state="fail", text="typo: there is no tool 'tood'"),
        Finding(name="profiles", state="fail", text="broken: is not JSON"),
    )


@pytest.mark.parametrize(
    ("value", "given", "place"),
    [
        ("nats://n", None, "NATS_URL"),
        (None, True, "given to the navi that runs"),
        (None, False, "embedded"),
        (None, None, "embedded"),
    ],
)
def test_a_server_of_ones_own_is_not_called_embedded(
    value: str | None, given: bool | None, place: str
) -> None:
    assert place_of("NATS_URL", value, given=given) == place


def test_a_long_log_of_which_nothing_is_signed_here_is_told() -> None:
    few, many = signed_finding(None, [3]), signed_finding(None, [20_000, 1])

    assert (few.state, many.state) == ("ok", "warn")
    assert "none of its 20,001 events" in many.text
