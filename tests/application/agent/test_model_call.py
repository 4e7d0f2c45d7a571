"""When a stream of a model server is given up, on a clock as fast as the machine."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from navi.application.agent.model_calls.model_call import Attention, ModelCall
from navi.domain.log.secrets import Secrets
from navi.domain.model_calls.model_choice import Candidate, choose, failure_of
from navi.domain.vocabulary.errors import FailureKind, ModelFailure
from navi.domain.vocabulary.events import ModelCalled, TextDelta, Usage
from navi.domain.vocabulary.ids import CallId
from navi.ports.language_model import FinalChunk, ModelChunk, TextChunk
from tests.application.agent.test_await_server import LoopClock, Told, seconds, still

CALLED = ModelCalled(
    call_id=CallId("c"),
    purpose="turn",
    model="m",
    backend="llama",
    iteration=1,
    request_sha256="",
    context_seq=4,
    system_sha256=None,
    tools_sha256=None,
    options={},
    renderer="ollama/1",
)
TIMEOUT = 60.0  # seconds, to the first chunk and between later ones


async def words(count: int, *, then: float) -> AsyncGenerator[ModelChunk, None]:
    """A word a second, silence for ``then`` seconds, and the end."""
    for number in range(count):
        yield TextChunk(f"{number} ")
        await asyncio.sleep(1.0)
    await asyncio.sleep(then)
    yield FinalChunk(finish_reason="stop", usage=Usage())


@pytest.mark.parametrize(
    ("count", "then", "kind", "error", "given_up", "tried_again"),
    [
        (3601, 0, "protocol", "the reply had not ended after 3600 s", 3600, False),
        (3590, 60, "protocol", "the reply had not ended after 3600 s", 3600, False),
        (5, 61, "timeout_chunk", "the model server fell silent for 60 s in mid-stream", 64, True),
        (0, 61, "timeout_first_chunk", "the model server sent nothing for 60 s", 60, True),
    ],
    ids=["streams for an hour", "and is silent at its end", "falls silent", "sends nothing"],
)
def test_a_stream_is_given_up_for_what_it_did(
    count: int, then: float, kind: FailureKind, error: str, given_up: int, tried_again: bool
) -> None:
    async def play() -> None:
        told = Told()
        attention = Attention(enough=None, repetition=lambda text, limits: None)
        call = ModelCall(told, CALLED, LoopClock(), Secrets(), attention, offered=())

        with pytest.raises(ModelFailure) as raised:
            await call.stream(
                words(count, then=then), first=TIMEOUT, later=TIMEOUT, give_way=asyncio.Event()
            )

        failure = raised.value
        assert (failure.kind, failure.error) == (kind, error)
        assert round(seconds()) == given_up
        server = Candidate("llama", "m")
        again = choose([server], frozenset(), [failure_of(server, failure)])
        assert (again is not None) == tried_again
        shown = "".join(event.text for event in told.events if isinstance(event, TextDelta))
        assert shown == call.partial_text  # nothing that came is lost
        assert len(shown.split()) == min(count, 3600)

    still(play)
