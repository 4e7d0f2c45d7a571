"""Extract memories from a turn: the request to the model, and the facts in its answer."""

import re
from collections.abc import Sequence

from msgspec import Struct

from navi.domain.messages import Message
from navi.domain.naming import without_thinking
from navi.domain.own_words import is_rephrased, stands_in
from navi.domain.prompt import PromptMessage

KNOWN_ALREADY = "Known already:"
MAX_FACTS = 10  # of one turn; more of them are a retelling of the turn
MAX_FACT = 500  # characters
MAX_LINES = 100  # of an answer that are looked at; a model that goes on for longer repeats itself
MAX_BEGINNING = 80  # characters of a message by which it is named
MAX_MESSAGES = 10  # of the user that are named, the last ones
MAX_KNOWN = 50  # facts known already that are shown, the last ones

REMEMBERING = """\
Keep the long-term memory of this user now; do not answer them, and use no tools. What did the user \
say of themselves that will still be true and useful in another conversation weeks from now?
- who they are, what they work on, with whom and with what
- what they prefer, and how they want things done
- decisions they made, and the names of things that will come up again
Only what the user said or plainly confirmed counts. Leave out: what only this task needs, what the \
agent did or found, general knowledge, guesses, moods, and what is known already. Never keep a \
password, a key, a token or any other secret, even if asked to.

Answer with one fact a line, and with nothing else:
- The user ...
Each fact is one short sentence that can be understood on its own: names in place of pronouns, dates \
in place of "tomorrow", in the language of the user. Most messages hold nothing worth keeping: then \
answer with the single word NONE."""
LOOK_AT = "Look only at what the user said in the last turn, in the messages that begin like this:"

_BULLET = re.compile(r"\A\s*(?:[-*•+]|\d{1,2}[.)])\s+(.*)\Z")  # `\d`: some models number the lines


def memory_question(turn: Sequence[Message], known: Sequence[str]) -> tuple[PromptMessage, ...]:
    """The question for the facts of a turn, behind the context in which it stands.

    The messages of the user are named by their beginnings: the model has all of the conversation
    before it, and what tools gave back: a web page that says "remember this" is not the user.

    Args:
        turn: the turn's messages, in order.
        known: facts that are remembered already, the most fitting ones last.
    """
    said = [message for message in turn if message.role == "user" and _was_said(message)]
    begin = "\n".join(f"> {beginning_of(message.content)}" for message in said[-MAX_MESSAGES:])
    parts = [REMEMBERING]
    if known:
        facts = "\n".join(f"- {fact}" for fact in known[-MAX_KNOWN:])
        parts.append(f"{KNOWN_ALREADY}\n{facts}")
    parts += [f"{LOOK_AT}\n{begin}", ASK_FOR_FACTS]
    return (PromptMessage(role="user", content="\n\n".join(parts), is_guidance=True),)


def beginning_of(content: str) -> str:
    """The first words of a message, on one line."""
    return " ".join(content[: 2 * MAX_BEGINNING].split())[:MAX_BEGINNING].strip()


ASK_FOR_FACTS = "Write the facts worth remembering, one a line as `- fact`, or NONE."


class FoundFact(Struct, frozen=True, kw_only=True):
    """A fact worth remembering; ``source_seq`` is of the message in which it stands."""

    text: str
    source_seq: int


def facts_of(
    answer: str, *, turn: Sequence[Message], known: Sequence[str]
) -> tuple[FoundFact, ...]:
    """The facts in the model's answer that hold: at most ``MAX_FACTS``, in the order of the answer.

    Weak models make facts up, take them from the prompt, or retell the conversation. So a fact has to
    stand in something that the user said in this turn, and has to be new.

    Args:
        turn: the turn's messages, in order.
        known: facts that are remembered already.
    """
    said = [message for message in turn if message.role == "user" and _was_said(message)]
    seen = [*known]
    facts: list[FoundFact] = []
    for line in without_thinking(answer).splitlines()[:MAX_LINES]:
        if (bullet := _BULLET.match(line)) is None:
            continue
        fact = " ".join(bullet[1].split())[:MAX_FACT].strip()
        source = next((m.seq for m in reversed(said) if stands_in(fact, m.content)), None)
        if source is not None and not is_rephrased(fact, seen):
            seen.append(fact)
            facts.append(FoundFact(text=fact, source_seq=source))
    return tuple(facts[:MAX_FACTS])


def is_enough(answer: str) -> bool:
    """Whether an answer that is still being written has nothing to add: no fact, or all there may be."""
    whole, newline, _ = without_thinking(answer).rpartition("\n")
    lines = whole.splitlines()
    nothing = bool(lines) and lines[0].strip(" .*_`") == "NONE"
    return bool(newline) and (nothing or len(lines) >= MAX_LINES)


def _was_said(message: Message) -> bool:
    """Whether the message is text of the user or the agent, not of navi or a tool."""
    by_navi = message.is_guidance or message.is_summary or message.is_plan
    return message.role != "tool" and not by_navi and bool(message.content)
