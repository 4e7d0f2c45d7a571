"""The names under which tools of MCP servers are offered."""

import re

from hypothesis import given
from hypothesis import strategies as st

from navi.adapters.tools.mcp.names import offered_names

TOOL_NAMES = st.lists(st.text(min_size=1, max_size=100), unique=True, max_size=20)


def test_a_name_that_model_servers_take_is_kept() -> None:
    assert offered_names("files", ["read_file", "list-all"]) == {
        "read_file": "files__read_file",
        "list-all": "files__list-all",
    }


def test_a_name_gives_way_to_one_that_is_so_by_right() -> None:
    named = offered_names("s", ["get.item", "get_item", "put.item"])

    assert named["get_item"] == "s__get_item"
    assert named["put.item"] == "s__put_item"
    assert re.fullmatch(r"s__get_item_[0-9a-f]{8}", named["get.item"])


@given(TOOL_NAMES)
def test_names_are_fit_all_different_and_the_same_in_any_order(
    tools: list[str],
) -> None:
    named = offered_names("server", tools)

    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,63}", name) for name in named.values())
    assert len(set(named.values())) == len(tools)
    assert offered_names("server", sorted(tools)) == named
