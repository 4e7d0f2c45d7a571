"""However the network cuts a stream, the same chunks come out of it."""

from collections.abc import AsyncGenerator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navi.adapters.llm import lines, ollama, openai_reply
from navi.adapters.llm.lines import EventSplitter, LineSplitter
from navi.domain.vocabulary.errors import ModelFailure
from navi.ports.language_model import ModelChunk
from tests.support.model_wire import (
    Done,
    ErrorLine,
    OllamaWire,
    OpenAIWire,
    Raw,
    Say,
    Think,
    Written,
    calls,
)

CUTS = st.lists(st.integers(0, 2000), max_size=12)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
ARGUMENTS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    TEXT, TEXT | st.integers(), max_size=3
)
PARTS = st.lists(
    st.one_of(
        st.builds(Say, TEXT),
        st.builds(Think, TEXT),
        ARGUMENTS.map(lambda arguments: calls(("f", arguments))),
        st.just(Raw(b"\r\n\r\n")),
        st.just(Raw(b"{malformed\n\n")),
        st.just(ErrorLine("boom")),
        st.just(Done()),
    ),
    max_size=8,
)


@given(PARTS, CUTS)
async def test_ollama_chunks_do_not_depend_on_the_cuts(
    parts: list[Written], cuts: list[int]
) -> None:
    wire = OllamaWire()
    data = b"".join(map(wire.write, parts))

    assert await _ollama(pieces(data, cuts)) == await _ollama([data])


@given(PARTS, CUTS)
async def test_openai_chunks_do_not_depend_on_the_cuts(
    parts: list[Written], cuts: list[int]
) -> None:
    wire = OpenAIWire()
    data = b"".join(map(wire.write, parts))

    assert await _openai(pieces(data, cuts)) == await _openai([data])


@given(st.lists(st.binary().filter(lambda line: b"\n" not in line and line[-1:] != b"\r")), CUTS)
def test_no_byte_of_a_line_is_lost(wanted: list[bytes], cuts: list[int]) -> None:
    splitter = LineSplitter()
    data = b"".join(line + b"\r\n" for line in wanted)

    came = [line for piece in pieces(data, cuts) for line in splitter.feed(piece)]

    assert [*came, *splitter.end()] == wanted


def test_the_lines_before_one_that_is_too_long_still_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 4)
    splitter = LineSplitter()
    came = list(splitter.feed(b"1234\n123"))

    with pytest.raises(ModelFailure, match="more than 4 bytes"):
        list(splitter.feed(b"45"))

    assert came == [b"1234"]


def test_an_event_is_bounded_even_if_its_lines_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 20)
    splitter = EventSplitter()

    with pytest.raises(ModelFailure, match="event of more than 20 bytes"):
        list(splitter.feed(b"data: 1234567890\n" * 3))


def pieces(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """The data, cut at these places."""
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(places)]


async def _sent(data: Sequence[bytes]) -> AsyncGenerator[bytes, None]:
    for piece in data:
        yield piece


async def _ollama(data: Sequence[bytes]) -> list[ModelChunk | str]:
    return await _outcome(ollama.read_stream(_sent(data), ollama.OllamaReply()))


async def _openai(data: Sequence[bytes]) -> list[ModelChunk | str]:
    return await _outcome(openai_reply.read_stream(_sent(data), openai_reply.OpenAIReply()))


async def _outcome(chunks: AsyncGenerator[ModelChunk, None]) -> list[ModelChunk | str]:
    """The chunks, and the failure at the end if there is one."""
    came: list[ModelChunk | str] = []
    try:
        async for chunk in chunks:
            came.append(chunk)
    except ModelFailure as failure:
        came.append(f"{failure.kind}: {failure.error}")
    return came
