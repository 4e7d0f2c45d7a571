"""What of a context is summarised, how that is asked for, and when it is worth it."""

from collections.abc import Sequence
from itertools import accumulate

import msgspec
from msgspec import Struct

from navi.domain.messages import Message
from navi.domain.prompt import PromptMessage, with_files

MAX_ARGUMENTS = 120  # characters of a call's arguments in the transcript
MAX_RESULT = 300  # characters of a result in the transcript
PIECE = 12_000  # characters of a transcript in one request
CHARS_PER_TOKEN = 4.0  # where the server has not counted anything yet
KEPT_SHARE = 0.6  # of the limit: where recent turns must be cut, what stays fills at most this much
# Characters of recent turns that are never too much: where a request with so few is counted as full,
# it is the system message and the tools that fill it.
NEVER_TOO_MUCH = 8_000

SUMMARISING = """\
You condense the earlier part of a conversation between a user and an agent, so that the agent can \
go on without it. Write bullet points, in the language of the conversation, with nothing before or \
after them. Keep:
- the user's standing instructions and preferences, word for word where the words matter
- what was asked for, what was decided and why
- facts, names, numbers, paths and results that are still needed
- what was tried and failed, so that it is not tried again
- open work: what is promised, begun or still to be done
Leave out greetings, repetitions and how things were found. Never invent anything."""
ASK_FOR_SUMMARY = "Write the summary of everything above as bullet points."
RUNNING_REQUEST = "The user's request that is being worked on, word for word:"

Row = tuple[int, Message]  # key in the context, and the message


class Cut(Struct, frozen=True, kw_only=True):
    """Where a context is parted.

    Attributes:
        replaced: the messages that a summary will stand for, in order.
        kept_from: key of the oldest message that stays.
        request: what the user asked in the turn that the cut falls into, where that is among the
            replaced.
    """

    replaced: tuple[Message, ...]
    kept_from: int
    request: str | None = None


def is_due(tokens: int | None, *, window: int, threshold: float) -> bool:
    """Whether a context fills at least ``threshold`` (0 to 1) of the window, in tokens."""
    return tokens is not None and tokens >= window * threshold


def size_of(messages: Sequence[Message]) -> int:
    """Characters of messages, as far as a model has to read them."""
    return sum(
        len(m.content) + sum(len(msgspec.json.encode(c.arguments)) for c in (m.tool_calls or ()))
        for m in messages
    )


def rate_of(messages: Sequence[Message], *, tokens: int) -> float:
    """Characters a token, as far as a context and its count tell; at most ``CHARS_PER_TOKEN``.

    The count is of the whole request, its system message and tools too, so this errs towards little
    room.
    """
    return min(CHARS_PER_TOKEN, max(0.01, size_of(messages) / max(1, tokens)))


def estimate_tokens(messages: Sequence[Message], *, chars_per_token: float) -> int:
    """Tokens of messages, at the rate that the server's last count gives."""
    return round(size_of(messages) / chars_per_token)


def cut(rows: Sequence[Row], *, keep_recent: int, room: int) -> Cut | None:
    """Where to part a context; None where nothing can be taken away.

    The last ``keep_recent`` turns stay. Only where these alone fill the limit, or nothing older is
    left to take, older turns of them go as well, and within the last turn its older groups of calls
    and results, until what stays fits into ``room``; what always stays is the latest group. A call
    is never parted from its results.

    Args:
        keep_recent: conversational turns, a user message and all that follows it up to the next.
        room: characters that may stay where recent turns must be cut: ``KEPT_SHARE`` of the limit.
    """
    starts = [n for n, (_, message) in enumerate(rows) if _begins_turn(message)]
    legal = _legal_cuts(rows)
    if not rows or not legal:
        return None
    recent = starts[-max(1, keep_recent)] if max(1, keep_recent) <= len(starts) else 0
    if keep_recent == 0 and legal[-1] == len(rows) and _is_answered(rows[-1][1]):
        chosen = len(rows)
    else:
        places = [n for n in legal if recent <= n < len(rows) and _begins_part(rows[n][1])]
        chosen = _place_to_cut(rows, places, recent, room)
    replaced = tuple(message for _, message in rows[:chosen])
    if all(message.is_summary for message in replaced):
        return None
    return Cut(
        replaced=replaced,
        kept_from=rows[chosen][0] if chosen < len(rows) else rows[-1][0] + 1,
        request=_request(replaced, rows[chosen][1]) if chosen < len(rows) else None,
    )


def _place_to_cut(rows: Sequence[Row], places: Sequence[int], recent: int, room: int) -> int:
    """One of the places, which begin at the recent turns; 0 where none will do."""
    held = [message for _, message in rows[recent:]]
    size = size_of(held)
    if any(not message.is_summary for _, message in rows[:recent]):
        if size <= max(room / KEPT_SHARE, NEVER_TOO_MUCH):
            return next(iter(places), 0)
    elif size <= NEVER_TOO_MUCH and not any(message.tool_calls for message in held):
        return 0
    taken = list(accumulate((size_of([message]) for _, message in rows), initial=0))
    fitting = (n for n in places if taken[-1] - taken[n] <= room)
    return next(fitting, places[-1] if places else 0)


def _request(replaced: Sequence[Message], oldest_kept: Message) -> str | None:
    """The user's words of the turn that a cut falls into; None where it falls between two turns.

    A message that came in while the turn ran begins a turn to count by, but the turn's first message
    must not be lost over it; and it is handed on from summary to summary while the turn goes on.
    """
    turn_id = oldest_kept.turn_id
    inside = not _begins_turn(oldest_kept)
    asked = [message for message in replaced if _begins_turn(message)]
    of_this_turn = [m for m in asked if turn_id is not None and m.turn_id == turn_id]
    words = [with_files(message) for message in of_this_turn or (asked[-1:] if inside else [])]
    # The last cut fell into this turn where the oldest message that it left belongs to this turn.
    left = next((message for message in replaced if not message.is_summary), oldest_kept)
    if (turn_id is not None and left.turn_id == turn_id) or (inside and not asked):
        earlier = [quoted_request(m.content) for m in replaced if m.is_summary]
        words = [*filter(None, earlier[-1:]), *words]
    return "\n\n".join(words) or None


def _legal_cuts(rows: Sequence[Row]) -> list[int]:
    """Before which rows a context may be parted: not before a result, and behind the summary."""
    legal: list[int] = []
    waiting: set[str] = set()
    for place, (_, message) in enumerate(rows):
        if not waiting and message.role != "tool" and not message.is_summary:
            legal.append(place)
        waiting.update(call.id for call in (message.tool_calls or ()))
        if message.role == "tool" and message.call_id:
            waiting.discard(message.call_id)
    if not waiting:
        legal.append(len(rows))
    return legal


def _is_answered(last: Message) -> bool:
    return last.role == "assistant" and not last.tool_calls


def _begins_part(message: Message) -> bool:
    """Whether a question and its answer stay together where a context is parted before a message."""
    return _begins_turn(message) or bool(message.tool_calls)


def _begins_turn(message: Message) -> bool:
    return message.role == "user" and not message.is_guidance and not message.is_summary


# --- the request --------------------------------------------------------------------------------


def transcript(messages: Sequence[Message]) -> tuple[str, ...]:
    """The messages written out, in pieces of at most ``PIECE`` characters; nothing is dropped.

    Arguments and results are cut short; a message that is longer than a piece is split.
    """
    pieces: list[str] = []
    piece = ""
    for message in messages:
        text = _written(message)
        while True:
            room = PIECE - len(piece) - (2 if piece else 0)
            if len(text) <= room:
                piece = f"{piece}\n\n{text}" if piece else text
                break
            if piece:
                pieces.append(piece)
                piece = ""
                continue
            pieces.append(text[:PIECE])
            text = text[PIECE:]
    if piece:
        pieces.append(piece)
    return tuple(pieces)


def _written(message: Message) -> str:
    match message.role:
        case "tool":
            return f"[result of {message.name or 'a tool'}] {_short(message.content, MAX_RESULT)}"
        case "user" if message.is_summary:
            return f"[summary of what came before]\n{message.content}"
        case "user":
            return f"[{'reminder' if message.is_guidance else 'user'}]\n{with_files(message)}"
        case _:
            calls = "".join(
                f"\n[calls {call.name} with "
                f"{_short(msgspec.json.encode(call.arguments).decode(), MAX_ARGUMENTS)}]"
                for call in (message.tool_calls or ())
            )
            return f"[agent]\n{message.content}{calls}"


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def summary_messages(piece: str, *, so_far: str | None) -> tuple[PromptMessage, ...]:
    """The request for a summary of one piece.

    Args:
        so_far: the summary of the pieces before it, which is folded in.
    """
    before = f"Summary so far, to be folded in:\n{so_far}\n\n" if so_far is not None else ""
    return (
        PromptMessage(role="system", content=SUMMARISING),
        PromptMessage(
            role="user", content=f"{before}{piece}\n\n{ASK_FOR_SUMMARY}", is_guidance=True
        ),
    )


def whole_summary(summary: str, part: Cut) -> str:
    """The text that stands in place of what is replaced; it ends with the running turn's request."""
    # A model that repeats the heading must not be taken for the user by the next summary.
    text = summary.partition(RUNNING_REQUEST)[0].strip()
    return text if part.request is None else f"{text}\n\n{RUNNING_REQUEST}\n{part.request}"


def quoted_request(summary: str) -> str:
    """The request that a summary quotes; empty where it quotes none."""
    return summary.partition(RUNNING_REQUEST)[2].strip()


def why_not(summary: str, part: Cut) -> str | None:
    """Why a summary is of no use; None where it is: it has words, and fewer than what it replaces."""
    if not summary.strip():
        return "the model wrote no summary"
    if len(summary) >= size_of(part.replaced):
        return "the summary is not shorter than what it would replace"
    return None
