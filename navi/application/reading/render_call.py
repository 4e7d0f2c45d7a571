"""Reproduce the request of a model call from the log, byte for byte."""

from collections.abc import Iterable
from contextlib import aclosing
from hashlib import sha256

import msgspec
from msgspec import UNSET, Struct

from navi.application.reading.read_session import replay_session
from navi.domain.context.messages import Message
from navi.domain.context.prompt import (
    ModelOptions,
    ModelRequest,
    PromptMessage,
    ToolSchema,
    pictures_in,
    prompt_messages,
    with_pictures,
)
from navi.domain.context.window import shorten
from navi.domain.vocabulary.errors import Erased, LogDamaged, NotFound
from navi.domain.vocabulary.events import JsonObject, ModelCalled
from navi.domain.vocabulary.ids import CallId, SessionId
from navi.ports.event_log import FACTS, EventLog, Recorded
from navi.ports.language_model import Renderers
from navi.ports.text_store import TextStore
from navi.projections.context import Context


class RenderedCall(Struct, frozen=True, kw_only=True):
    """A reproduced request.

    Attributes:
        body: the exact string that was sent.
        sha256: over the bytes as they were sent, from the log.
        matches: whether ``body`` hashes to it.
    """

    call_id: CallId
    backend: str
    request: JsonObject
    body: str
    sha256: str
    matches: bool


async def render_call(
    event_log: EventLog,
    texts: TextStore,
    renderers: Renderers,
    session_id: SessionId,
    call_id: CallId,
) -> RenderedCall:
    """Reproduce the request of a model call from the log alone.

    Raises:
        NotFound: no such call.
        Erased: it was erased, or what it sent, or a text that it refers to.
        LogDamaged: a text that it refers to was changed.
    """
    called, where = await _find(event_log, session_id, call_id)
    if called.erased is True:
        raise Erased(f"model call {call_id} was erased")
    projection = Context(where.subagent_id)
    context = await replay_session(event_log, projection, session_id, until=called.context_seq)
    system = await _text(texts, "system message", called.system_sha256)
    tools = await _text(texts, "list of tools", called.tools_sha256)
    tail = await _text(texts, "question", called.tail_sha256 or None)
    sent = called.context_messages
    rows = context.rows if sent is UNSET else context.rows[:sent]
    chars = _shortened(rows, called)
    options = msgspec.convert(called.options, ModelOptions)
    # A call beside the turns has no thinking of its own to send, also where it stands in an open turn.
    prompted = prompt_messages(system, rows, turn_id=None if called.node else where.turn_id)
    if pictures := pictures_in(prompted):
        hashes = [picture.base64_sha256 for picture in pictures]
        seen = options.pictures is True
        kept = (
            {name: await _text(texts, "picture", name) or "" for name in hashes} if seen else None
        )
        prompted = with_pictures(prompted, kept)
    request = ModelRequest(
        model=called.model,
        messages=(
            *shorten(prompted, chars),
            *(msgspec.json.decode(tail, type=tuple[PromptMessage, ...]) if tail else ()),
        ),
        tools=msgspec.json.decode(tools, type=tuple[ToolSchema, ...]) if tools else (),
        options=options,
    )
    body = renderers.render_again(called.renderer, request)
    matches = sha256(body).hexdigest() == called.request_sha256
    if not matches and await _lost_words(event_log, session_id, until=called.context_seq):
        raise Erased(f"some of what model call {call_id} sent was erased")
    return RenderedCall(
        call_id=call_id,
        backend=called.backend,
        request=msgspec.json.decode(body),
        body=body.decode(),
        sha256=called.request_sha256,
        matches=matches,
    )


def _shortened(rows: Iterable[Message], called: ModelCalled) -> dict[CallId, int]:
    """To how many characters tool results were shortened, by their calls."""
    of_seq = {one.seq: one.chars for one in called.shortened or ()}
    return {row.call_id: of_seq[row.seq] for row in rows if row.call_id and row.seq in of_seq}


async def _find(
    event_log: EventLog, session_id: SessionId, call_id: CallId
) -> tuple[ModelCalled, Recorded]:
    async with aclosing(event_log.read(session_id, types=FACTS)) as batches:
        async for batch in batches:
            for row in batch:
                if row.type != ModelCalled.TYPE:
                    continue
                event = row.envelope.event
                if isinstance(event, ModelCalled) and event.call_id == call_id:
                    return event, row
    raise NotFound(f"no model call {call_id} in session {session_id}")


async def _lost_words(event_log: EventLog, session_id: SessionId, *, until: int) -> bool:
    """Whether any fact up to ``until`` was erased."""
    async with aclosing(event_log.read(session_id, until=until, types=FACTS)) as batches:
        async for batch in batches:
            if any(row.salt is None for row in batch):
                return True
    return False


async def _text(texts: TextStore, what: str, digest: str | None) -> str | None:
    if digest is None:
        return None
    text = await texts.get(digest)
    if text is None:
        raise Erased(f"the {what} that was sent is not kept any more: it was erased ({digest})")
    if sha256(text.encode()).hexdigest() != digest:
        raise LogDamaged(f"the {what} that is kept is not the one that was sent ({digest})")
    return text
