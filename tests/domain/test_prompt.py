"""What a model is sent: the context in the form that chat templates take, each request like the one before."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from navi.domain.ids import TurnId
from navi.domain.prompt import GO_ON, NOT_ANSWERED, PromptMessage, conversation_of

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
