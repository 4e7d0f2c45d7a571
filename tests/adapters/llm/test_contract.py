"""The backends, held to the one contract."""

import json

import pytest

from navi.adapters.llm.demo import DemoModel
from navi.adapters.llm.ollama import Ollama
from navi.adapters.llm.openai import OpenAI
from navi.adapters.llm.wire_json import MAX_REASON
from navi.domain.context.prompt import ModelRequest
from navi.ports.language_model import LanguageModel
from tests.contracts.language_model import (
    MALFORMED,
    TOO_LONG,
    ScriptedModelContract,
    ToldTo,
    asking,
    collect,
    put_together,
)
from tests.support.model_server import ModelServer
from tests.support.model_wire import (
    Calls,
    Cut,
    Done,
    ErrorLine,
    Part,
    Raw,
    Say,
    Sleep,
    Stall,
    Think,
)


class OnServer(ScriptedModelContract):
    @pytest.fixture
    def told_to(self, server: ModelServer) -> ToldTo:
        def tell(*parts: Part) -> ModelRequest:
            server.answer(*parts)
            return asking("go")

        return tell

    async def test_the_reason_for_the_end_is_clean_and_short(
        self, model: LanguageModel, told_to: ToldTo
    ) -> None:
        request = told_to(Say("a"), Done(reason="\0" + "x" * 1_000))

        reply = put_together(await collect(model, model.render(request)))

        assert reply.finish_reason == "\ufffd" + "x" * (MAX_REASON - 1)


class TestOllama(OnServer):
    @pytest.fixture
    def model(self, ollama: Ollama) -> LanguageModel:
        return ollama


class TestOpenAI(OnServer):
    @pytest.fixture
    def model(self, openai: OpenAI) -> LanguageModel:
        return openai


class TestDemoModel(ScriptedModelContract):
    @pytest.fixture
    def model(self) -> LanguageModel:
        return DemoModel(pace=0, chunk_timeout=60)

    @pytest.fixture
    def told_to(self) -> ToldTo:
        def tell(*parts: Part) -> ModelRequest:
            return asking("\n".join(["!usage 12 5", *map(line_of, parts)]))

        return tell


def line_of(part: Part) -> str:
    match part:
        case Think(text=text):
            return f"!think {text}"
        case Say(text=text):
            return f"!say {text}"
        case Calls(calls=wanted):
            return "\n".join(
                f"!tool {name} {text if isinstance(text, str) else json.dumps(text)}"
                for name, text in wanted
            )
        case Done(reason=reason):
            return f"!finish {reason}"
        case ErrorLine(text=text):
            return "!fail overflow" if text == TOO_LONG else "!fail http 500"
        case Raw():
            assert part == MALFORMED
            return "!fail protocol"
        case Stall() | Sleep():
            return "!sleep 60"
        case Cut():
            return "!fail connection"
