"""What of a context is summarised, how that is asked for, and when it is worth it."""

from collections.abc import Sequence
from itertools import accumulate

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from navi.domain.context.messages import Message, one_by_one
from navi.domain.context.prompt import PromptMessage, with_files
from navi.domain.context.window import size_of_picture

MAX_ARGUMENTS = 120  # characters of a call's arguments in the transcript
MAX_RESULT = 300  # characters of a result in the transcript
PIECE = 12_000  # characters of a transcript in one request, in a window that takes as many
PIECE_CHARS_PER_TOKEN = 1  # of the window: dense text has hardly more, and the summary needs room
LEAST_PIECE = 1_000  # characters
MAX_PIECES = 8  # requests that one compression makes
LEAST_OF_A_MESSAGE = 80  # characters: fewer say nothing; a message a token long takes no more
KEPT_SHARE = 0.6  # of the limit: where recent turns must be cut, what stays fills at most this much
# Characters of recent turns that are never too much, where the window has room for them: where a
# request with so few is counted as full, it is the system message and the tools that fill it.
NEVER_TOO_MUCH = 8_000
FEW_WORDS = 1_000  # characters that are never too much, whatever the window

WHAT_TO_KEEP = """\
Write bullet points, in the language of the conversation, with nothing before or after them. Keep:
- the user's standing instructions and preferences, word for word where the words matter
- what was asked for, what was decided and why
- facts, names, numbers, paths and results that are still needed
- what was tried and failed, so that it is not tried again
- open work: what is promised, begun or still to be done
Leave out greetings, repetitions and how things were found. Never invent anything."""
ASK_FOR_SUMMARY = "Write the summary of everything above as bullet points."
SUMMARISING = f"""\
You condense the earlier part of a conversation between a user and an agent, so that the agent can \
go on without it. {WHAT_TO_KEEP}"""
SUMMARY_QUESTION = f"""\
Stop here. Do not answer what was asked above, and use no tools: condense this conversation, so that \
you can go on without it. {WHAT_TO_KEEP}

{ASK_FOR_SUMMARY}"""
NO_SUMMARY = "What came before was too long to be kept, and could not be summarised. It began:"
EXCERPT, EXCERPTS = 160, 12  # characters of a message, and messages
# What a summary quotes of the running turn's request: the whole must be shorter than what it replaces.
# All of a short one, and of a long one no more than half of what is replaced.
SHORT_REQUEST, MAX_REQUEST, SHARE_OF_REQUEST = 200, 2_000, 0.5  # characters
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


def size_of(messages: Sequence[Message]) -> int:
    """Characters of messages, as far as a model has to read them; pictures by what they take."""
    return sum(
        len(m.content)
        + sum(len(msgspec.json.encode(c.arguments)) for c in (m.tool_calls or ()))
        + (size_of_picture(m.picture) if m.picture else 0)
        for m in one_by_one(messages)
    )


def as_read(rows: Sequence[Row], *, sees: bool) -> tuple[Row, ...]:
    """The rows as a model reads them, without the pictures where it does not see."""
    return tuple((key, row if sees else replace(row, picture=UNSET)) for key, row in rows)


def room_for(
    messages: Sequence[Message], *, tokens: int, limit: float, chars_per_token: float
) -> int:
    """Characters of messages that may stay where recent turns must be cut.

    Args:
        tokens: of the whole request, its system message and tools too.
        limit: tokens of a request that is not full.
    """
    beside = max(0, round(tokens * chars_per_token) - size_of(messages))
    return max(FEW_WORDS, round((limit * chars_per_token - beside) * KEPT_SHARE))


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
    floor = _never_too_much(room)
    recent = starts[-max(1, keep_recent)] if max(1, keep_recent) <= len(starts) else 0
    if keep_recent == 0 and legal[-1] == len(rows) and _is_answered(rows[-1][1]):
        chosen = len(rows)
    else:
        places = [n for n in legal if recent <= n < len(rows) and _begins_part(rows[n][1])]
        chosen = _place_to_cut(rows, places, recent, room)
        whole = size_of([message for _, message in rows])
        answered = legal[-1] == len(rows) and _is_answered(rows[-1][1])
        if answered and not _takes_anything(rows, chosen) and whole > max(room / KEPT_SHARE, floor):
            chosen = len(rows)  # one exchange that is too much by itself
    replaced = tuple(message for _, message in rows[:chosen])
    if all(message.is_summary for message in replaced):
        return None
    return Cut(
        replaced=replaced,
        kept_from=rows[chosen][0] if chosen < len(rows) else rows[-1][0] + 1,
        request=_request(replaced, rows[chosen][1]) if chosen < len(rows) else None,
    )


def _never_too_much(room: int) -> int:
    return max(FEW_WORDS, min(NEVER_TOO_MUCH, room))


def _takes_anything(rows: Sequence[Row], place: int) -> bool:
    return any(not message.is_summary for _, message in rows[:place])


def _place_to_cut(rows: Sequence[Row], places: Sequence[int], recent: int, room: int) -> int:
    """One of the places, which begin at the recent turns; 0 where none will do."""
    held = [message for _, message in rows[recent:]]
    size, floor = size_of(held), _never_too_much(room)
    if _takes_anything(rows, recent):
        if size <= max(room / KEPT_SHARE, floor):
            return next(iter(places), 0)
    elif size <= floor and not any(message.tool_calls for message in held):
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
    words = [
        with_files(message.content, message.files)
        for message in of_this_turn or (asked[-1:] if inside else [])
    ]
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


def transcript(messages: Sequence[Message], *, window: int) -> tuple[str, ...]:
    """The messages written out, in at most ``MAX_PIECES`` pieces; no message is dropped.

    Arguments and results are cut short, and the longest messages where all of it would be more than
    the pieces hold: they keep their beginning and their end. A message longer than a piece is split.

    Args:
        window: tokens of the call that reads a piece.
    """
    size = min(PIECE, max(LEAST_PIECE, window * PIECE_CHARS_PER_TOKEN))
    texts = [_written(message) for message in one_by_one(messages)]
    most = _fair_share([len(text) for text in texts], (MAX_PIECES - 1) * size)
    pieces: list[str] = []
    piece = ""
    for whole in texts:
        text = _without_its_middle(whole, most)
        while True:
            room = size - len(piece) - (2 if piece else 0)
            if len(text) <= room:
                piece = f"{piece}\n\n{text}" if piece else text
                break
            if piece:
                pieces.append(piece)
                piece = ""
                continue
            pieces.append(text[:size])
            text = text[size:]
    if piece:
        pieces.append(piece)
    if len(pieces) <= MAX_PIECES:
        return tuple(pieces)
    whole = _without_its_middle("\n\n".join(pieces), MAX_PIECES * size - LEAST_OF_A_MESSAGE)
    return tuple(whole[start : start + size] for start in range(0, len(whole), size))


def _fair_share(sizes: Sequence[int], room: int) -> int:
    """How much each may keep at most, for all of them together to fit into a room."""
    left, share = room, max(sizes, default=0)
    if sum(sizes) <= room:
        return share
    for place, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - place)
        if size > share:
            break
        left -= size
    return max(LEAST_OF_A_MESSAGE, share)


def _without_its_middle(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    end = most // 4
    left_out = len(text) - most
    return (
        f"{text[: most - end]}\n… ({left_out:,} characters left out) …\n{text[len(text) - end :]}"
    )


def _written(message: Message) -> str:
    match message.role:
        case "tool":
            return f"[result of {message.name or 'a tool'}] {_short(message.content, MAX_RESULT)}"
        case "user" if message.is_summary:
            return f"[summary of what came before]\n{message.content}"
        case "user":
            words = with_files(message.content, message.files)
            return f"[{'reminder' if message.is_guidance else 'user'}]\n{words}"
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


def summary_question() -> tuple[PromptMessage, ...]:
    """The question behind a context, or behind the part of it that is to be summarised."""
    return (PromptMessage(role="user", content=SUMMARY_QUESTION, is_guidance=True),)


def whole_summary(summary: str, part: Cut) -> str:
    """The text that stands in place of what is replaced; it ends with the running turn's request."""
    # A model that repeats the heading must not be taken for the user by the next summary.
    text = summary.partition(RUNNING_REQUEST)[0].strip()
    most = min(MAX_REQUEST, max(SHORT_REQUEST, round(size_of(part.replaced) * SHARE_OF_REQUEST)))
    quoted = _without_its_middle(part.request or "", most)
    return text if part.request is None else f"{text}\n\n{RUNNING_REQUEST}\n{quoted}"


def quoted_request(summary: str) -> str:
    """The request that a summary quotes; empty where it quotes none."""
    return summary.partition(RUNNING_REQUEST)[2].strip()


def excerpt(part: Cut) -> str:
    """What stands in place of what is replaced, where no model can summarise it: its beginnings."""
    said = [
        m
        for m in one_by_one(part.replaced)
        if m.role != "tool" and not m.is_guidance and m.content.strip()
    ]
    lines = [f"- [{m.role}] {_short(' '.join(m.content.split()), EXCERPT)}" for m in said]
    shown = lines if len(lines) <= EXCERPTS else [lines[0], "- …", *lines[1 - EXCERPTS :]]
    return whole_summary("\n".join([NO_SUMMARY, *shown]), part)


def why_not(summary: str, part: Cut) -> str | None:
    """Why a summary is of no use; None where it is: it has words, and fewer than what it replaces."""
    if not summary.strip():
        return "the model wrote no summary"
    if len(summary) >= size_of(part.replaced):
        return "the summary is not shorter than what it would replace"
    return None
