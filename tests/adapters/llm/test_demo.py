"""The demo model does what a script says, and knows where it stands from the messages alone."""

import asyncio
import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from navi.adapters.llm.demo import DemoModel, render
from navi.adapters.llm.demo_script import GRAMMAR, parse_script
from navi.adapters.llm.ollama import Ollama
from navi.domain.context.prompt import ModelRequest, PromptMessage
from navi.domain.memory.remembering import beginning_of
from navi.domain.vocabulary.errors import BadInput
from navi.domain.vocabulary.events import Purpose, ToolCall, Usage
from navi.domain.vocabulary.ids import CallId
from navi.ports.language_model import TextChunk
from tests.contracts.language_model import CALL, Reply, asking, collect, put_together
from tests.support.model_server import ModelServer

DEMO = DemoModel(pace=0, chunk_timeout=60)
SCRIPT = """\
Please do this:
!usage 100 9
!think Two files.
!tool write_file {"path": "a"}
!tool write_file {"path": "b"}
!then
!say Written:
!results
"""


def used(name: str, *results: str) -> tuple[PromptMessage, ...]:
    """What stands in a request after a tool was called that often."""
    ids = [CallId(f"call_{number}") for number in range(len(results))]
    calls = tuple(ToolCall(id=id_, name=name, arguments={}) for id_ in ids)
    answers = (
        PromptMessage(role="tool", content=result, call_id=id_, name=name)
        for id_, result in zip(ids, results, strict=True)
    )
    return (PromptMessage(role="assistant", content="", tool_calls=calls), *answers)


def after(request: ModelRequest, *messages: PromptMessage) -> ModelRequest:
    return replace(request, messages=(*request.messages, *messages))


async def reply(request: ModelRequest) -> Reply:
    return put_together(await collect(DEMO, render(request)))


async def test_two_calls_in_one_reply_and_an_answer_after_the_results() -> None:
    asked = asking(SCRIPT)
    guidance = PromptMessage(role="user", content="Nine calls are left.", is_guidance=True)

    first = await reply(asked)
    second = await reply(after(asked, *used("write_file", "ok", "no"), guidance))

    assert first == Reply(
        thinking="Two files.",
        calls=(("write_file", {"path": "a"}), ("write_file", {"path": "b"})),
        usage=Usage(prompt_tokens=100, completion_tokens=9),
    )
    assert second.text == "Written:\nwrite_file: ok\nwrite_file: no"


async def test_a_plan_before_the_first_reply_does_not_shift_the_script() -> None:
    plan = PromptMessage(role="assistant", content="1. look (SELF)")

    assert (await reply(after(asking(SCRIPT), plan))).thinking == "Two files."


async def test_an_earlier_script_is_over() -> None:
    said = PromptMessage(role="user", content="hello")

    plain = await reply(after(asking(SCRIPT), *used("write_file", "skipped"), said))

    assert plain.text.startswith("I am navi's demo model")
    assert "> hello" in plain.text


async def test_a_script_without_an_end_says_what_the_tools_gave_back() -> None:
    asked = after(asking("!tool f {}"), *used("f", "42"))

    assert (await reply(asked)).text == "The tools gave back:\nf: 42"


async def test_without_tools_none_is_called() -> None:
    answer = await reply(asking("!say Well.\n!tool f {}", tools=()))

    assert (answer.calls, answer.text) == ((), "Well.\n(No tools are offered, so none is called.)")


async def test_long_text_comes_in_many_pieces() -> None:
    chunks = await collect(DEMO, render(asking("!repeat 1000 lorem ipsum")))

    assert put_together(chunks).text == " ".join(["lorem ipsum"] * 1000)
    assert sum(isinstance(chunk, TextChunk) for chunk in chunks) == 2000


async def test_a_line_that_is_not_understood_is_said() -> None:
    answer = await reply(asking("!dance now"))

    assert answer.text == (
        "I do not understand this line of the script: !dance now: "
        "is not in the grammar (see `navi demo-script`)"
    )


@pytest.mark.parametrize(
    "line",
    ["!repeat many x", "!repeat 100001 x", "!sleep -1", "!sleep NaN", "!fail softly", "!tool"],
)
def test_nonsense_in_a_script_names_its_line(line: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_script(line)

    assert refused.value.field == line


@pytest.mark.parametrize(
    ("purpose", "said", "answer"),
    [
        ("planning", "Do it", "DIRECT"),
        (
            "planning",
            "!plan Look (TOOL: list_files)\n!plan Tell (SELF)",
            "PLAN\n1. Look (TOOL: list_files)\n2. Tell (SELF)\n"
            "Complexity: simple\nMilestones:\n- All steps done",
        ),
        ("review", "Do it", "OK"),
        ("naming", "Please read the file that I sent you", "Please read the file that I"),
        ("naming", "!say Hello there", "Hello there"),
        ("memory", "Hello", "NONE"),
        ("memory", "!remember Likes tea\n!remember Lives in Ulm", "- Likes tea\n- Lives in Ulm"),
        ("compression", "!tool delete {}", "- !tool delete {}"),
    ],
)
async def test_each_purpose_has_an_answer_that_fits(
    purpose: Purpose, said: str, answer: str
) -> None:
    question = PromptMessage(
        role="user", content=f"Of this:\n> {beginning_of(said)}", is_guidance=True
    )
    request = after(asking(said), question)

    stream = DEMO.stream(render(request), purpose=purpose, call_id=CALL)

    assert put_together([chunk async for chunk in stream]).text == answer


async def test_pieces_come_at_their_pace() -> None:
    model = DemoModel(pace=0.01, chunk_timeout=60)
    loop = asyncio.get_running_loop()

    begun = loop.time()
    await collect(model, render(asking("!say one two three four")))

    assert loop.time() - begun >= 0.04


async def test_the_grammar_names_every_word() -> None:
    words = "think say repeat results tool then sleep pace usage finish fail plan remember"

    assert all(f"`!{word}" in GRAMMAR for word in words.split())


@given(st.text())
def test_no_message_breaks_the_parser(text: str) -> None:
    with contextlib.suppress(BadInput):
        parse_script(text)


async def test_the_same_script_works_over_the_wire(server: ModelServer, ollama: Ollama) -> None:
    asked: Any = asking(SCRIPT)

    first = put_together(await collect(ollama, ollama.render(asked)))
    later = after(asked, *used("write_file", "ok", "no"))
    second = put_together(await collect(ollama, ollama.render(later)))

    assert first == await reply(asked)
    assert second.text == (await reply(later)).text
