"""The window of a call: what is estimated, what is left out in which order, and what is said of it."""

from hypothesis import given
from hypothesis import strategies as st

from navi.domain.context.prompt import ModelRequest, PromptMessage, ToolSchema
from navi.domain.context.window import (
    Fitted,
    Rate,
    TooLarge,
    counted_rate,
    fit,
    is_full,
    reserved,
    shorten,
    shortened_result,
    sizes_of,
    why_too_large,
)
from navi.domain.model_calls.answer_bounds import NAME, SMALLEST_ANSWER, UNBIDDEN_THINKING, bound
from navi.domain.vocabulary.events import Shortened
from navi.domain.vocabulary.ids import CallId

WINDOW = 4_096
COUNTED = Rate(chars=4.0, counted=True)
SYSTEM = PromptMessage(role="system", content="You are navi.")
ASKS = PromptMessage(role="user", content="What does it say?")
TOOL = ToolSchema(
    name="read",
    description="Read a file. " * 20,
    parameters={
        "type": "object",
        "properties": {"description": {"type": "string", "description": "what for " * 20}},
    },
)


def result(number: int, size: int) -> PromptMessage:
    return PromptMessage(role="tool", content="r" * size, call_id=CallId(f"c{number}"), name="read")


def request(*messages: PromptMessage, tools: tuple[ToolSchema, ...] = (TOOL,)) -> ModelRequest:
    return ModelRequest(model="m", messages=(SYSTEM, ASKS, *messages), tools=tools)


def fitted(asked: ModelRequest, window: int = WINDOW) -> Fitted | TooLarge:
    return fit(
        asked, results={CallId(f"c{n}"): 10 + n for n in range(100)}, window=window, rate=COUNTED
    )


def test_what_fits_is_sent_as_it_is() -> None:
    asked = request(result(1, 500))

    found = fitted(asked)

    assert isinstance(found, Fitted)
    assert (found.request, found.shortened) == (asked, ())
    assert found.tokens == COUNTED.tokens(sizes_of(asked).total)


def test_a_result_is_given_to_the_model_in_a_third_of_the_window_at_most() -> None:
    found = fitted(request(result(1, 256 * 1024)))

    assert isinstance(found, Fitted)
    assert found.shortened == (Shortened(seq=11, chars=WINDOW),)
    assert found.request.tools == (TOOL,)
    assert found.request.messages[-1].content.startswith("r" * WINDOW + "\n\n[shortened to fit")


def test_results_are_shortened_further_and_then_tools_lose_their_descriptions() -> None:
    several = fitted(request(*(result(n, 3_000) for n in range(6))))
    nearly = fitted(request(PromptMessage(role="user", content="x" * 15_000)))

    assert isinstance(several, Fitted)
    assert {one.chars for one in several.shortened} == {WINDOW * 3 // 6}
    assert several.request.tools == (TOOL,)
    assert isinstance(nearly, Fitted)
    [bare] = nearly.request.tools
    assert bare == ToolSchema(
        name="read",
        description="",
        parameters={"type": "object", "properties": {"description": {"type": "string"}}},
    )


def test_what_does_not_fit_at_all_is_told_by_its_sizes() -> None:
    found = fitted(request(PromptMessage(role="user", content="x" * 40_000)))

    assert isinstance(found, TooLarge)
    why = why_too_large(found, window=WINDOW, rate=COUNTED, model="m")
    assert "window of m, 4,096 tokens: system text 8, tools " in why
    assert "messages 10,013 (the longest 10,004) tokens" in why
    assert "NAVI_CONTEXT_WINDOW" in why


def test_what_may_fit_after_all_is_left_to_the_server() -> None:
    def of(chars: int) -> Fitted | TooLarge:
        return fitted(request(PromptMessage(role="user", content="x" * chars)))

    assert isinstance(of(round(WINDOW * 4 * 1.3)), Fitted)
    assert isinstance(of(round(WINDOW * 4 * 1.6)), TooLarge)


def test_where_the_whole_is_stays_said() -> None:
    whole = (
        "x" * 1_000
        + "\n\n[cut: the first 1,000 of 2,000 bytes; the whole output is in the file o.txt]"
    )

    shorter = shortened_result(whole, 300)

    assert shorter.startswith("x" * 300 + "\n\n[shortened")
    assert shorter.endswith(
        "[cut: the first 1,000 of 2,000 bytes; the whole output is in the file o.txt]"
    )


def test_a_context_is_full_at_the_threshold_or_where_the_answer_has_no_room() -> None:
    def full(tokens: int, answer: int = 0) -> bool:
        return is_full(tokens, window=1_000, threshold=0.8, answer=answer)

    assert [full(799), full(800)] == [False, True]
    assert [full(700, answer=300), full(700, answer=301)] == [False, True]
    assert [reserved(2_048), reserved(32_768)] == [256, 1_024]
    assert [reserved(32_768, wanted=100), reserved(32_768, wanted=20_000)] == [100, 8_192]


def test_an_answer_is_bounded_by_its_purpose_and_by_the_room() -> None:
    assert bound(None, room=500, thinks=True) == 500
    assert bound(NAME, room=500, thinks=False) == NAME
    assert bound(NAME, room=5_000, thinks=True) == NAME + UNBIDDEN_THINKING
    assert bound(NAME, room=-3, thinks=False) == SMALLEST_ANSWER


def test_a_count_that_cannot_be_of_the_request_is_not_believed() -> None:
    assert counted_rate(4_000, 1_000) == Rate(chars=4.0, counted=True)
    assert counted_rate(40_000, 60) == Rate(chars=6.0, counted=True)
    assert counted_rate(4_000, 12) is None


SIZES = st.lists(st.integers(0, 20_000), max_size=12)


@given(sizes=SIZES, window=st.integers(1_024, 65_536))
def test_what_is_sent_is_what_is_rendered_again(sizes: list[int], window: int) -> None:
    asked = request(*(result(n, size) for n, size in enumerate(sizes)))

    found = fitted(asked, window)

    if isinstance(found, Fitted):
        chars = {CallId(f"c{one.seq - 10}"): one.chars for one in found.shortened}
        assert shorten(asked.messages, chars) == found.request.messages
        assert len(found.request.messages) == len(asked.messages)


@given(sizes=SIZES, more=st.integers(0, 2_000))
def test_a_result_is_not_shortened_in_another_way_because_the_next_one_came(
    sizes: list[int], more: int
) -> None:
    one = fitted(request(*(result(n, size) for n, size in enumerate(sizes))), 131_072)
    two = fitted(request(*(result(n, size) for n, size in enumerate([*sizes, more]))), 131_072)

    assert isinstance(one, Fitted)
    assert isinstance(two, Fitted)
    if sizes and sum(sizes) < 200_000:
        assert two.shortened[: len(one.shortened)] == one.shortened
