"""Compose a rerun: the application on a recording, without a network."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from navi.adapters.files.export_file import lines_of
from navi.adapters.in_memory.embedders import NoEmbedders
from navi.adapters.in_memory.memories import InMemoryMemories
from navi.adapters.in_memory.read_models import InMemoryReadModels
from navi.adapters.in_memory.recorded_log import RecordedLog
from navi.adapters.in_memory.text_store import InMemoryTextStore
from navi.adapters.llm.renderers import KnownRenderers
from navi.adapters.system import RandomIds
from navi.adapters.tools.spawn_agent import SpawnAgentTool
from navi.adapters.virtual_time_loop import VirtualTimeLoop
from navi.application.rerun.gate import Gate
from navi.application.rerun.in_words import difference_lines
from navi.application.rerun.load import load_export
from navi.application.rerun.node import Parts
from navi.application.rerun.recorded_memories import known_already, remembered
from navi.application.rerun.rerun import Difference, Rerun
from navi.domain.memory.memory import Memory
from navi.domain.reading.recording import Recording
from navi.domain.vocabulary.events import Envelope
from navi.domain.vocabulary.ids import Owner, SessionId
from navi.ports.read_models import StoredState

TEST_WIDTH = 100  # characters of a line in the report of a test that fails


def rerun(
    envelopes: Sequence[Envelope], texts: Mapping[str, str], *, until: int | None = None
) -> Difference | None:
    """Run a recorded session again, up to an event; gives the first difference, if any.

    Runs a loop of its own to its end: not for a thread in which one runs already.
    """
    recording = Recording(envelopes, texts)
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(_rerun(recording, recording.last if until is None else until))


def rerun_file(path: Path) -> None:
    """Run the session of an export again, for a test as `navi rerun --save` writes it.

    Raises:
        AssertionError: it comes out another way; the message says how.
        OSError: it cannot be read.
        BadInput: it is not the export of one session.
    """
    loaded = load_export(lines_of(path))
    difference = rerun(loaded.envelopes, loaded.texts)
    if difference is not None:
        raise AssertionError("\n".join(difference_lines(difference, width=TEST_WIDTH)))


async def _rerun(recording: Recording, until: int) -> Difference | None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)  # noqa: S101 - made above
    gate, texts = Gate(recording), InMemoryTextStore()
    for text in recording.texts.values():  # pictures are sent again
        await texts.put(text)
    parts = Parts(
        event_log=RecordedLog(recording.envelopes),
        read_models=_ReadModels(gate),
        texts=texts,
        recalled=_Remembered(lambda: remembered(recording, gate.seq)),
        known=_Remembered(lambda: dict(enumerate_texts(known_already(recording, gate.seq)))),
        renderers=KnownRenderers(),
        spawn=SpawnAgentTool(),
        clock=_Clock(gate, loop),
        ids=RandomIds(),
    )
    return await Rerun(recording, gate, parts, loop).run(until=until)


def enumerate_texts(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Memories with made-up ids."""
    return [(str(number), text) for number, text in enumerate(texts)]


class _Clock:
    """The port ``Clock``: the moments of the recording, and the time of the loop."""

    def __init__(self, gate: Gate, loop: VirtualTimeLoop) -> None:
        self._gate = gate
        self._loop = loop

    def now(self) -> datetime:
        return self._gate.recording.at(max(1, self._gate.seq)).at

    def monotonic(self) -> float:
        return self._loop.time()


class _ReadModels(InMemoryReadModels):
    """The port ``ReadModels``: of the sessions that want to be taken over there is only this one.

    What a fork goes on from stands in the log as well, and may have been left with an open turn.
    """

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self._gate = gate

    async def unfinished(
        self, projection: str, version: int, *, after: SessionId | None, limit: int
    ) -> Sequence[tuple[SessionId, StoredState]]:
        return self._of_this(
            await super().unfinished(projection, version, after=after, limit=limit)
        )

    async def owing(
        self, projection: str, version: int, *, after: SessionId | None, limit: int
    ) -> Sequence[tuple[SessionId, StoredState]]:
        return self._of_this(await super().owing(projection, version, after=after, limit=limit))

    def _of_this(
        self, found: Sequence[tuple[SessionId, StoredState]]
    ) -> Sequence[tuple[SessionId, StoredState]]:
        this = self._gate.recording.session_at(max(1, self._gate.seq))
        return tuple(one for one in found if one[0] == this)


class _Remembered(InMemoryMemories):
    """The port ``Memories``: finds what was found."""

    def __init__(self, found: Callable[[], Mapping[str, str]]) -> None:
        super().__init__(NoEmbedders())
        self._found = found

    async def search(self, owner: Owner, query: str, *, limit: int) -> tuple[Memory, ...]:
        del owner, query, limit
        return tuple(
            Memory(
                id=id_,
                text=text,
                session_id=SessionId(""),
                source_seq=None,
                at=datetime.min.replace(tzinfo=UTC),
            )
            for id_, text in self._found().items()
        )
