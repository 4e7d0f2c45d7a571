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
        places: the event behind which a mark was reached, by mark.
        mark: of all that was said in it.
        asked_mark: up to the user's last message; empty before the first.
        answer: to that message, as far as there is one.
        unsettled: whether that answer may have been seen in part only: its turn was stopped, has failed
            or has waited for a person.
    """

    session_id: SessionId
    places: Mapping[Mark, int]
    mark: Mark
    asked_mark: Mark = ""
    answer: str = ""
    unsettled: bool = False


class Continuation(Struct, frozen=True, kw_only=True):
    """Where a conversation goes on.

    Attributes:
        known: how many of its messages the session has.
        fork_at: the event behind which it goes on in a fork; None where it goes on in the session.
    """

    session_id: SessionId
    known: int
    fork_at: int | None


def continuation(
    marks: Sequence[Mark], history: Sequence[Said], sessions: Sequence[KnownConversation]
) -> Continuation | None:
    """Where a conversation goes on; None where no session knows anything of it.

    That is in the session that knows most of it; of several in one that has come no further, else in
    the latest one.

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
    ends = {session.mark, session.asked_mark} if session.unsettled else {session.mark}
    if known == len(history) and marks[known] in ends:
        return Continuation(session_id=session.session_id, known=known, fork_at=None)
    if known == len(history) - 1 and _has_seen_a_part(marks[known], history[known], session):
        return Continuation(session_id=session.session_id, known=len(history), fork_at=None)
    fork_at = session.places[marks[known]]
    return Continuation(session_id=session.session_id, known=known, fork_at=fork_at)


def _has_seen_a_part(mark: Mark, last: Said, session: KnownConversation) -> bool:
    if not session.unsettled or last.role != "assistant" or mark != session.asked_mark:
        return False
    whole = plain_words(Said(role="assistant", content=session.answer))
    return whole.startswith(plain_words(last))
