"""A conversation as another program keeps it: what was said, and how a session knows it again.

Such a program sends the whole conversation each time. A conversation has a *mark*: a hash of all that
was said in it, so that a session that has come by the same mark is the one that it goes on from.
Blanks do not count, nor does what the program or navi itself has put around an answer.
"""

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256

from msgspec import Struct

from navi.domain.session.turn import FOR_LENGTH
from navi.domain.vocabulary.events import ModelCallFailed, ModelReplied, Said
from navi.domain.vocabulary.ids import Owner, SessionId

Mark = str  # SHA-256, in hexadecimal

BETWEEN_REPLIES = "\n\n"  # where an answer has several, because tools were called between them
WAITING = "⏸ navi waits for your decision"  # with which the notice of a waiting turn begins

# As chat pages keep the thinking of an answer within its text, and some send it back: with what it
# begins, and what ends it.
_THINKING = {
    '<details type="reasoning"': "</details>",
    '<details type="tool_calls"': "</details>",
    "<think>": "</think>",
}
_THINKING_BEGINS = re.compile("|".join(map(re.escape, _THINKING)))


def beginning(owner: Owner, conversation_id: str | None) -> Mark:
    """The mark of a conversation in which nothing was said; nobody else's has the same."""
    return _mark("begun", owner, conversation_id or "")


def followed_by(mark: Mark, said: Said) -> Mark:
    """The mark of a conversation in which something more was said."""
    return _mark(mark, said.role, plain_words(said))


def marks_of(start: Mark, history: Sequence[Said]) -> tuple[Mark, ...]:
    """The marks of a conversation's beginnings: of nothing, of its first message, of its first two, ..."""
    marks = [start]
    for said in history:
        marks.append(followed_by(marks[-1], said))
    return tuple(marks)


def plain_words(said: Said) -> str:
    """What was said, without blanks that mean nothing; of an answer without what is not its text."""
    text = said.content
    if said.role == "assistant":
        text, _, _ = _without_thinking(text).partition(WAITING)
    return " ".join(text.split())


def notice_of_waiting(names: Sequence[str], link: str) -> str:
    """What the text of an answer ends with where its turn waits for a person; known again by its begin."""
    asked = ", ".join(f"`{name}`" for name in dict.fromkeys(names))
    return (
        f"{WAITING}: may the agent call {asked}? Decide at {link} or with `navi approvals`; "
        "the turn goes on as soon as you have."
    )


def _without_thinking(text: str) -> str:
    """The text with a blank in place of all thinking that has an end."""
    # Not with an expression for the whole of it: that looks for an end anew behind every beginning.
    parts, at, without_end = list[str](), 0, set[str]()
    for begins in _THINKING_BEGINS.finditer(text):
        end = _THINKING[begins[0]]
        if begins.start() < at or end in without_end:
            continue
        ends = text.find(end, begins.end())
        if ends < 0:
            without_end.add(end)
            continue
        parts.append(text[at : begins.start()])
        at = ends + len(end)
    return " ".join((*parts, text[at:]))


def _mark(*parts: str) -> Mark:
    return sha256(b"".join(b"%d:%b" % (len(p), p) for p in map(str.encode, parts))).hexdigest()


class AnswerText(Struct, frozen=True, kw_only=True):
    """The text of a turn's answer, from all its replies; the same as was streamed.

    Attributes:
        cut_off: the last reply was cut off for length: the next one goes on in it.
    """

    text: str = ""
    cut_off: bool = False

    def begun(self) -> str:
        """What stands between the text so far and the next words."""
        return BETWEEN_REPLIES if self.text and not self.cut_off else ""

    def with_reply(self, reply: ModelReplied) -> "AnswerText":
        """The text with a reply."""
        cut_off = reply.finish_reason == FOR_LENGTH and not reply.tool_calls
        if not reply.content:
            return AnswerText(text=self.text, cut_off=self.cut_off or cut_off)
        return AnswerText(text=self.text + self.begun() + reply.content, cut_off=cut_off)

    def with_failure(self, failed: ModelCallFailed) -> "AnswerText":
        """The text with what a call had said before it failed: it was shown."""
        if not failed.partial_text:
            return self
        return AnswerText(text=self.text + self.begun() + failed.partial_text)


# --- which session it goes on from --------------------------------------------------------------


class KnownConversation(Struct, frozen=True, kw_only=True):
    """What one session knows of conversations.

    Attributes:
        seq: the session's last event as of which that is.
        places: the event behind which a mark was reached, by mark.
        mark: of all that was said in it.
        asked_mark: up to the user's last message; empty before the first.
        answer: to that message, as far as there is one.
        unsettled: whether that answer may have been seen in part only: its turn was stopped, has failed,
            has waited for a person or behind another turn.
        queued_mark: up to the last message that waits behind the open turn, as its program has the
            conversation; empty where none waits, or nothing was told of that.
        waits: whether a message waits there, behind the open turn or for a place among the user's turns.
    """

    session_id: SessionId
    seq: int
    places: Mapping[Mark, int]
    mark: Mark
    asked_mark: Mark = ""
    answer: str = ""
    unsettled: bool = False
    queued_mark: Mark = ""
    waits: bool = False


class Continuation(Struct, frozen=True, kw_only=True):
    """Where a conversation goes on.

    Attributes:
        as_of: the session's last event when it was found.
        known: how many of its messages the session has.
        fork_at: the event behind which it goes on in a fork; None where it goes on in the session.
        behind: the mark that it goes on from in the session, where that is not the session's own.
    """

    session_id: SessionId
    as_of: int
    known: int
    fork_at: int | None
    behind: Mark | None = None


def continuation(
    marks: Sequence[Mark], history: Sequence[Said], sessions: Sequence[KnownConversation]
) -> Continuation | None:
    """Where a conversation goes on; None where no session knows anything of it.

    That is in the session that knows most of it; of several in one that has come no further, else in
    the latest one. Where a message waits that the conversation does not have, the session will have come
    further: it goes on beside that, in a fork.

    Args:
        marks: of the history's beginnings, see ``marks_of``.
        history: what was said before the message that is to be sent now.
    """
    found = [place for each in sessions if (place := _in_session(marks, history, each))]
    return max(found, key=lambda p: (p.known, p.fork_at is None, p.session_id), default=None)


def _in_session(
    marks: Sequence[Mark], history: Sequence[Said], session: KnownConversation
) -> Continuation | None:
    known = max((n for n, mark in enumerate(marks) if mark in session.places), default=None)
    if known is None:
        return None
    is_last = marks[-1] == session.mark and not session.waits
    fork_at, behind = None, None
    if is_last or _has_seen_a_part(marks, history, session):
        known = len(history)
        # What the session says in the answer since, the program will not have: it is known by what it has.
        if not is_last or session.mark == session.asked_mark:
            behind = marks[-1]
    else:
        fork_at = session.places[marks[known]]
    return Continuation(
        session_id=session.session_id,
        as_of=session.seq,
        known=known,
        fork_at=fork_at,
        behind=behind,
    )


def _has_seen_a_part(
    marks: Sequence[Mark], history: Sequence[Said], session: KnownConversation
) -> bool:
    """Whether it ends with a part of the last answer, or before it; of what waits, all is a notice."""
    answers = {session.queued_mark: ""}
    if session.unsettled and not session.waits:
        answers[session.asked_mark] = session.answer
    if marks[-1] in answers:
        return True
    if not history or history[-1].role != "assistant" or marks[-2] not in answers:
        return False
    whole = plain_words(Said(role="assistant", content=answers[marks[-2]]))
    return whole.startswith(plain_words(history[-1]))
