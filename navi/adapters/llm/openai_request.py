"""Requests to ``/chat/completions`` as OpenAI defined them, in the forms that servers want."""

from typing import Literal

import msgspec
from msgspec import UNSET, Struct

from navi.domain.context.prompt import (
    ModelRequest,
    PromptMessage,
    PromptPicture,
    ToolSchema,
    conversation_of,
    files_attached,
)
from navi.domain.vocabulary.events import JsonObject


class Form(Struct, frozen=True, kw_only=True):
    """What servers differ in.

    Attributes:
        asks_usage: by ``stream_options``, which some refuse.
        bound: the key of ``max_tokens``; OpenAI's newer models refuse the old one, most other servers
            know only that. None: the bound is not sent, and each message as it stands in the context
            and with its files in other words, as before there was one.
    """

    asks_usage: bool = True
    bound: Literal["max_tokens", "max_completion_tokens"] | None = "max_tokens"


def renderer_of(form: Form) -> str:
    """The name of a form in the log."""
    version = "openai/1" if form.bound is None else "openai/2"
    usage = "" if form.asks_usage else "-without-usage"
    bound = "-max-completion-tokens" if form.bound == "max_completion_tokens" else ""
    return version + usage + bound


FORMS = {
    renderer_of(form): form
    for form in (
        Form(asks_usage=asks_usage, bound=bound)
        for bound in (None, "max_tokens", "max_completion_tokens")
        for asks_usage in (True, False)
    )
}


def render(request: ModelRequest, form: Form) -> bytes:
    """The body of ``/chat/completions``.

    ``num_ctx`` and ``think`` have no place in this protocol. Thinking is not sent back: servers do
    not agree on its name, and some refuse it.
    """
    messages = (
        files_attached(request.messages)
        if form.bound is None
        else conversation_of(request.messages)
    )
    body: JsonObject = {
        "model": request.model,
        "messages": [_message(message) for message in messages],
    }
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        # llama.cpp and vLLM leave the tools in the prompt, which is what they were sent for: without
        # them it would be another one from the system text on.
        if form.bound is not None and request.options.tool_choice is not UNSET:
            body["tool_choice"] = request.options.tool_choice
    body["stream"] = True
    if form.asks_usage:
        body["stream_options"] = {"include_usage": True}
    if request.options.temperature is not None:
        body["temperature"] = request.options.temperature
    if form.bound is not None and request.options.max_tokens is not UNSET:
        body[form.bound] = request.options.max_tokens
    return msgspec.json.encode(body)


def _message(message: PromptMessage) -> JsonObject:
    sent: JsonObject = {"role": message.role, "content": message.content}
    if message.pictures:
        text = {"type": "text", "text": message.content}
        sent["content"] = [text, *(_picture(picture) for picture in message.pictures)]
    if message.tool_calls:
        # Strict servers want null where there is no text beside the calls.
        sent["content"] = message.content or None
        sent["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": msgspec.json.encode(call.arguments).decode(),
                },
            }
            for call in message.tool_calls
        ]
    if message.role == "tool":
        sent["tool_call_id"] = message.call_id
    return sent


def _picture(picture: PromptPicture) -> JsonObject:
    url = f"data:{picture.media_type};base64,{picture.base64}"
    return {"type": "image_url", "image_url": {"url": url}}


def _tool(tool: ToolSchema) -> JsonObject:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        },
    }
