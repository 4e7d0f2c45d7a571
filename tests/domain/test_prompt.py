"""What a model is sent: the context in the form that chat templates take, each request like the one before."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from navi.domain.context.messages import Message, Picture
from navi.domain.context.prompt import (
    GO_ON,
    NOT_ANSWERED,
    PromptMessage,
    conversation_of,
    pictures_in,
    prompt_messages,
    with_pictures,
)
from navi.domain.vocabulary.events import ToolCall
from navi.domain.vocabulary.ids import CallId, TurnId
from tests.domain.specification import AT

QUESTION = PromptMessage(role="user", content="Where?")
REMEMBERED = PromptMessage(role="user", content="- likes tea", is_guidance=True)
PLAN = PromptMessage(role="assistant", content="1. look (SELF)")
ANSWER = PromptMessage(role="assistant", content="Here.")


def test_what_stands_in_the_users_role_side_by_side_is_one_message() -> None:
    both = PromptMessage(role="user", content="Where?\n\n- likes tea")

    assert conversation_of((QUESTION, REMEMBERED, ANSWER, QUESTION)) == (both, ANSWER, QUESTION)


def test_what_was_not_answered_is_not_asked_for_again_by_the_next_message() -> None:
    stopped = replace(QUESTION, turn_id=TurnId("t1"))
    recalled = replace(REMEMBERED, turn_id=TurnId("t1"))
    later = PromptMessage(role="user", content="When?", turn_id=TurnId("t2"))
    both = replace(stopped, content="Where?\n\n- likes tea")

    assert conversation_of((stopped, recalled, later)) == (both, NOT_ANSWERED, later)


def test_what_was_said_while_the_turn_ran_belongs_to_it() -> None:
    first = replace(QUESTION, turn_id=TurnId("t1"))
    steered = PromptMessage(role="user", content="In Oslo?", turn_id=TurnId("t1"))

    assert conversation_of((first, steered)) == (replace(first, content="Where?\n\nIn Oslo?"),)


def test_a_summary_says_that_it_is_one() -> None:
    system = PromptMessage(role="system", content="You are navi.")
    said = PromptMessage(
        role="user", content="Summary of the conversation so far:\n- likes tea\n\nWhere?"
    )

    assert conversation_of((system, REMEMBERED, QUESTION)) == (
        system,
        replace(said, is_guidance=True),
    )


def test_the_user_asks_to_go_on_behind_words_that_nobody_answered() -> None:
    assert conversation_of((QUESTION, PLAN)) == (QUESTION, PLAN, GO_ON)
    assert conversation_of((QUESTION, PLAN, ANSWER)) == (QUESTION, PLAN, GO_ON, ANSWER, GO_ON)


def picture(name: str) -> Message:
    shown = Picture(
        path=name, sha256="", media_type="image/png", width=40, height=30, base64_sha256=f"# {name}"
    )
    return Message(
        seq=1, role="user", content=f"{name}:", at=AT, turn_id=None, is_guidance=True, picture=shown
    )


def of_agent(*calls: str) -> Message:
    asked = tuple(ToolCall(id=CallId(id_), name="view_image", arguments={}) for id_ in calls)
    return Message(
        seq=1, role="assistant", content="", at=AT, turn_id=None, tool_calls=asked or UNSET
    )


def result(call: str) -> Message:
    return Message(
        seq=1, role="tool", content=call, at=AT, turn_id=None, call_id=CallId(call), name="look"
    )


def test_what_tools_show_stands_behind_the_results_of_all_calls_beside_them() -> None:
    context = (of_agent("a", "b"), picture("a.png"), result("a"), picture("b.png"), result("b"))

    sent = prompt_messages(None, context, turn_id=None)

    assert [message.content for message in sent] == ["", "a", "b", "a.png:", "b.png:"]
    [_, _, _, both] = conversation_of(sent)[:4]
    assert both.content == "a.png:\n\nb.png:"
    assert [shown.base64_sha256 for shown in both.pictures or ()] == ["# a.png", "# b.png"]


def test_a_picture_is_sent_to_who_sees_and_named_to_others() -> None:
    messages = prompt_messages(None, (picture("a.png"),), turn_id=None)

    [seen] = with_pictures(messages, {"# a.png": "QUJD"})
    [named] = with_pictures(messages, None)
    assert with_pictures(messages, {}) == (named,)  # erased meanwhile

    assert [shown.base64 for shown in pictures_in([seen])] == ["QUJD"]
    assert named.content == "a.png: a picture, which this model cannot see"
    assert named.pictures is UNSET


MESSAGES = st.lists(
    st.builds(
        PromptMessage,
        role=st.sampled_from(["user", "assistant", "tool"]),
        content=st.text(max_size=3),
        turn_id=st.sampled_from([UNSET, TurnId("t1"), TurnId("t2")]),
    ),
    max_size=8,
)


@given(MESSAGES, st.sampled_from(["user", "assistant"]))
def test_roles_take_turns(messages: list[PromptMessage], role: str) -> None:
    roles = [message.role for message in conversation_of(messages)]

    assert (role, role) not in pairwise(roles)
    assert roles[-1:] != ["assistant"]


@given(MESSAGES, MESSAGES)
def test_a_request_that_goes_on_begins_like_the_one_before(
    before: list[PromptMessage], more: list[PromptMessage]
) -> None:
    *begun, last = conversation_of([*before, QUESTION])

    later = conversation_of([*before, QUESTION, *more])

    assert later[: len(begun)] == tuple(begun)
    assert later[len(begun)].content.startswith(last.content)
