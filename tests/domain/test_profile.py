import pytest

from navi.domain.agent.profile import Profile, parse_profile, tools_error
from navi.domain.vocabulary.errors import BadInput


def test_every_key_may_be_left_out() -> None:
    assert parse_profile(b"{}") == Profile()


def test_prompts_stand_in_files_unless_the_config_has_them() -> None:
    profile = parse_profile(b'{"system_prompt": "mine"}', system="file", subagent="sub")

    assert profile == Profile(system_prompt="mine", subagent_system_prompt="sub")


@pytest.mark.parametrize(
    ("config", "error"),
    [
        (b'{"temprature": 1}', "temprature: is not known; did you mean temperature?"),
        (b'{"max_iterations": "20"}', "max_iterations: expected int, got str"),
        (b'{"max_iterations": 0}', "max_iterations: expected int >= 1"),
        (b'{"max_iterations": true}', "max_iterations: expected int, got bool"),
        (b'{"planning_enabled": 1}', "planning_enabled: expected bool, got int"),
        (b'{"enabled_tools": "todo"}', "enabled_tools: expected array | null, got str"),
        (b'{"enabled_tools": ["todo", 1]}', "enabled_tools[1]: expected str, got int"),
        (b"[]", "config.json: expected object, got array"),
    ],
)
def test_what_is_wrong_is_named(config: bytes, error: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_profile(config)

    assert str(refused.value) == error


@pytest.mark.parametrize("config", [b"", b"{", b"\xff"])
def test_what_is_no_json_is_said_to_be_none(config: bytes) -> None:
    with pytest.raises(BadInput, match=r"^config.json: is not JSON"):
        parse_profile(config)


@pytest.mark.parametrize(
    ("config", "models"),
    [(b"{}", ()), (b'{"model": "a"}', ("a",)), (b'{"model": ["a", "b"]}', ("a", "b"))],
)
def test_models_are_tried_in_order(config: bytes, models: tuple[str, ...]) -> None:
    assert parse_profile(config).models == models


@pytest.mark.parametrize(
    ("profile", "tools"),
    [
        (Profile(), None),
        (Profile(enabled_tools=("todo",)), ("todo",)),
        (Profile(enabled_tools=("todo",), subagent_tools=()), ("todo",)),
        (Profile(enabled_tools=("todo",), subagent_tools=("filesystem",)), ("filesystem",)),
    ],
)
def test_subagents_have_the_agents_tools_unless_they_have_their_own(
    profile: Profile, tools: tuple[str, ...] | None
) -> None:
    assert profile.tools_of_subagents == tools


@pytest.mark.parametrize(
    ("profile", "error"),
    [
        (Profile(), None),
        (Profile(enabled_tools=()), None),
        (Profile(enabled_tools=("todo", "code_exec", "github__search")), None),
        (Profile(enabled_tools=("todo", "tood")), "there is no tool 'tood'"),
        (Profile(subagent_tools=("a", "b__c", "a")), "there is no tool 'a', 'b__c'"),
    ],
)
def test_a_tool_that_there_is_not_is_named(profile: Profile, error: str | None) -> None:
    # Not offered here, and a server that is not up: they are there all the same.
    assert tools_error(profile, {"todo", "github"}) == error
