"""``navi diff --requests``: what the model saw differently."""

from contextlib import aclosing, suppress

import click
import msgspec
from msgspec import Struct

from navi.cli.reading.marked_lines import line_width, print_line, print_versions
from navi.cli.reading.named_session import find_session
from navi.cli.reading.request import rendered_request
from navi.cli.shared.command import HOLDS, print_json
from navi.cli.shared.elsewhere import opened_history
from navi.domain.reading.request_comparison import (
    MESSAGES,
    RequestComparison,
    RequestDifference,
    compare_requests,
    message_text,
)
from navi.domain.vocabulary.errors import LogDamaged, NotFound
from navi.domain.vocabulary.events import Json, ModelCalled
from navi.domain.vocabulary.ids import CallId, SessionId
from navi.ports.event_log import FACTS, SessionHistory
from navi.settings import Settings


class ComparedCall(Struct, frozen=True, kw_only=True):
    """A model call whose request is compared; ``seq`` of its ``model_called``."""

    session_id: SessionId
    seq: int
    call_id: CallId
    model: str
    purpose: str


class RequestDiffAnswer(Struct, frozen=True, kw_only=True):
    """What ``navi diff --requests --json`` prints."""

    a: ComparedCall
    b: ComparedCall
    comparison: RequestComparison


async def diff_requests(
    settings: Settings, session: str, a: int, other: str, b: int, *, as_json: bool
) -> int:
    """Compare the last requests at or before two events."""
    async with opened_history(settings, *{session, other}) as log:
        calls = [await _last_call(log, name, seq) for name, seq in ((session, a), (other, b))]
    bodies = [
        (await rendered_request(settings, call.session_id, call.call_id)).request for call in calls
    ]
    answer = RequestDiffAnswer(a=calls[0], b=calls[1], comparison=compare_requests(*bodies))
    if as_json:
        print_json(answer)
    else:
        _print(answer)
    return HOLDS


async def _last_call(log: SessionHistory, session: str, seq: int) -> ComparedCall:
    """The last call of a turn up to an event, the agent's own.

    Raises:
        NotFound: there is none.
    """
    session_id, _ = await find_session(log, session)
    found: ComparedCall | None = None
    async with aclosing(log.read(session_id, until=seq, types=FACTS)) as batches:
        async for batch in batches:
            for row in batch:
                event = None
                with suppress(LogDamaged):
                    event = row.decode().event
                if (
                    isinstance(event, ModelCalled)
                    and event.purpose == "turn"
                    and row.subagent_id is None
                ):
                    found = ComparedCall(
                        session_id=session_id,
                        seq=row.seq,
                        call_id=event.call_id,
                        model=event.model,
                        purpose=event.purpose,
                    )
    if found is None:
        raise NotFound(f"session {session_id} has no model call of a turn up to event {seq}")
    return found


def _print(answer: RequestDiffAnswer) -> None:
    width = line_width()
    for mark, call in (("---", answer.a), ("+++", answer.b)):
        words = f"{mark} request of event {call.seq} of {call.session_id}, to {call.model}"
        click.secho(words, fg="red" if mark == "---" else "green")
    comparison = answer.comparison
    same = comparison.same_messages
    click.echo("1 message is the same" if same == 1 else f"{same} messages are the same")
    if not comparison.differences:
        click.echo("nothing else differs")
    part = ""
    for difference in comparison.differences:
        if difference.part != part:
            part = difference.part
            click.secho(part, bold=True)
        _print_difference(difference, width)


def _print_difference(difference: RequestDifference, width: int) -> None:
    before, after = difference.before, difference.after
    head = f"{difference.name}: " if difference.name else ""
    if before is not None and after is not None:
        old, new = _text(difference, before), _text(difference, after)
        print_versions((head, old), (head, new), width)
        return
    for mark, value in (("-", before), ("+", after)):
        if value is not None:
            print_line(mark, head + _text(difference, value), width)


def _text(difference: RequestDifference, value: Json) -> str:
    if difference.part == MESSAGES:
        return message_text(value)
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
