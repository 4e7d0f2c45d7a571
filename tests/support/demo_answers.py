"""The demo model's mind behind the wire formats of real servers."""

from collections.abc import Iterator, Sequence
from typing import Any, assert_never, cast

from navi.adapters.llm import demo, demo_script
from navi.adapters.llm.wire_json import requested_call
from navi.domain.context.prompt import GO_ON, ModelRequest, PromptMessage, ToolSchema
from navi.domain.vocabulary.events import Purpose, ToolCall
from navi.domain.vocabulary.ids import CallId
from tests.support.model_wire import Calls, Cut, Done, ErrorLine, Part, Raw, Say, Sleep, Think


def demo_answer(body: Any, *, purpose: str) -> Sequence[Part]:
    """The parts of the answer to a chat request, as Ollama or OpenAI clients send it."""
    messages: list[PromptMessage] = []
    for message in body["messages"]:
        messages.append(_message(message, messages))
    tools = tuple(
        ToolSchema(
            name=tool["function"]["name"],
            description="",
            parameters={},
        )
        for tool in body.get("tools", ())
    )
    request = ModelRequest(model=body["model"], messages=tuple(messages), tools=tools)
    return tuple(_parts(request, cast(Purpose, purpose)))


def _message(message: Any, before: Sequence[PromptMessage]) -> PromptMessage:
    content = message.get("content") or ""
    calls = tuple(
        ToolCall(id=CallId(call.get("id", "")), name=call["function"]["name"], arguments={})
        for call in message.get("tool_calls") or ()
    )
    # The mark of guidance is not sent; but people do not speak between a call and its reply.
    in_turn = bool(before) and before[-1].role in ("tool", "user")
    in_turn = in_turn or content == GO_ON.content
    return PromptMessage(
        role=message["role"],
        content=content,
        tool_calls=calls,
        name=message.get("tool_name") or message.get("tool_call_id"),
        is_guidance=message["role"] == "user" and in_turn and not demo_script.is_script(content),
    )


def _parts(request: ModelRequest, purpose: Purpose) -> Iterator[Part]:
    called: list[tuple[str, Any]] = []
    spoken = False
    done = Done()
    for action in demo.actions(request, purpose):
        match action:
            case demo_script.Think(text=text):
                yield Think(text)
            case demo_script.Say(text=text, times=times):
                for number in range(times):
                    yield Say(
                        f"{'' if number else chr(10) if spoken else ''}{' ' * bool(number)}{text}"
                    )
                spoken = True
            case demo_script.Results():
                yield Say(("\n" if spoken else "") + demo.results(request.messages))
                spoken = True
            case demo_script.CallTool(name=name, arguments=arguments):
                wanted = requested_call(name, arguments)
                called.append(
                    (name, wanted.raw_arguments if wanted.arguments is None else wanted.arguments)
                )
            case demo_script.Sleep(seconds=seconds):
                yield Sleep(seconds)
            case demo_script.SetPace():
                pass
            case demo_script.Count(prompt=prompt, answer=answer):
                done = Done(reason=done.reason, prompt=prompt, completion=answer)
            case demo_script.ReportFinish(reason=reason):
                done = Done(reason=reason, prompt=done.prompt, completion=done.completion)
            case demo_script.Fail(kind=kind):
                if kind == "http":
                    yield ErrorLine("the demo script asks for this")
                else:
                    yield Raw(b"{not JSON\n\n") if kind == "protocol" else Cut(reset=True)
                return
            case _:
                assert_never(action)
    if called:
        yield Calls(tuple(called))
    yield done
