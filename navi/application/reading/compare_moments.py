"""Compare two moments of one session or of two: events, messages, todo."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec import Struct

from navi.application.reading.read_session import replay_session
from navi.domain.context.messages import Message, one_by_one
from navi.domain.reading.comparison import (
    Differences,
    EventDifference,
    differences_by_key,
    differences_of_messages,
    differences_of_streams,
)
from navi.domain.vocabulary.errors import BadInput, NotFound
from navi.domain.vocabulary.events import TodoItem
from navi.domain.vocabulary.ids import EventId, SessionId
from navi.ports.event_log import FACTS, Recorded, SessionHistory
from navi.projections.context import Context
from navi.projections.messages import Messages
from navi.projections.todo import Todo


class Moment(Struct, frozen=True, kw_only=True):
    """A session as of event ``seq``."""

    session_id: SessionId
    seq: int


class Comparison(Struct, frozen=True, kw_only=True):
    """The differences between two moments.

    Attributes:
        common: seq of the last event up to which both have the same events.
        context_token_count: at the first moment and at the second.
        events: behind ``common``, facts alone.
        rows: the events among them as they stand in the log, by id.
    """

    a: Moment
    b: Moment
    common: int
    messages: Differences[Message]
    context: Differences[Message]
    context_token_count: tuple[int | None, int | None]
    todo: Differences[TodoItem]
    events: tuple[EventDifference, ...]
    rows: dict[EventId, Recorded]


async def compare_moments(log: SessionHistory, a: Moment, b: Moment) -> Comparison:
    """Compare two moments, folded from the log alone.

    Raises:
        NotFound: there is no such session.
        BadInput: a moment is beyond the head of its session.
        LogUnavailable: Postgres does not answer.
    """
    for name, moment in (("A", a), ("B", b)):
        head = await log.head(moment.session_id)
        if head == 0:
            raise NotFound(f"no session {moment.session_id}")
        if not 0 <= moment.seq <= head:
            raise BadInput(name, f"session {moment.session_id} has events 1 to {head}")
    common = await _common(log, a, b)
    before, after = await _facts(log, a, common), await _facts(log, b, common)
    messages, context, todo = Messages(), Context(), Todo()
    saw = [await replay_session(log, context, at.session_id, until=at.seq) for at in (a, b)]
    heard = [await replay_session(log, messages, at.session_id, until=at.seq) for at in (a, b)]
    lists = [await replay_session(log, todo, at.session_id, until=at.seq) for at in (a, b)]
    return Comparison(
        a=a,
        b=b,
        common=common,
        messages=differences_of_messages(*(tuple(one_by_one(view.rows)) for view in heard)),
        context=differences_of_messages(*(tuple(one_by_one(view.rows)) for view in saw)),
        context_token_count=(saw[0].state.token_count, saw[1].state.token_count),
        todo=differences_by_key(
            {item.id: item for item in lists[0].state.items},
            {item.id: item for item in lists[1].state.items},
        ),
        events=differences_of_streams(
            [row.envelope for row in before], [row.envelope for row in after]
        ),
        rows={row.id: row for row in (*before, *after)},
    )


async def _common(log: SessionHistory, a: Moment, b: Moment) -> int:
    if a.session_id == b.session_id:
        return min(a.seq, b.seq)
    common = 0
    async with aclosing(_rows(log, a, 0)) as ours, aclosing(_rows(log, b, 0)) as theirs:
        async for one in ours:
            if one.id != getattr(await anext(theirs, None), "id", None):
                break
            common = one.seq
    return common


async def _facts(log: SessionHistory, moment: Moment, after: int) -> list[Recorded]:
    async with aclosing(_rows(log, moment, after)) as rows:
        return [row async for row in rows]


async def _rows(log: SessionHistory, moment: Moment, after: int) -> AsyncGenerator[Recorded, None]:
    batches = log.read(moment.session_id, after=after, until=moment.seq, types=FACTS)
    async with aclosing(batches):
        async for batch in batches:
            for row in batch:
                yield row
