"""Extract memories from a turn: the request to the model, and the facts in its answer."""

import re
from collections.abc import Sequence

from msgspec import Struct

from navi.domain.agent.naming import without_thinking
from navi.domain.context.messages import Message
from navi.domain.context.prompt import PromptMessage
from navi.domain.memory.own_words import is_rephrased, stands_in

KNOWN_ALREADY = "Known already:"
SAID = "They said:"
MAX_FACTS = 10  # of one turn; more of them are a retelling of the turn
MAX_FACT = 500  # characters
MAX_LINES = 100  # of an answer that are looked at; a model that goes on for longer repeats itself
MAX_BEGINNING = 80  # characters of a message by which it is named
MAX_MESSAGES = 10  # of the user that are named, the last ones

# Read anew after every turn, behind all that the server has in its cache: so it is short.
REMEMBERING = """\
Do not answer the user now, and use no tools: keep their long-term memory. What did they say of \
themselves, in the messages that begin as below, that will be true and useful weeks from now: who they \
are, what they work on and with whom, what they prefer, what they decided? Leave out this task, what \
the agent did or found, guesses, and secrets such as passwords."""
FORM_OF_FACTS = """\
One fact a line, in the user's language, with names and dates in place of "she" and "tomorrow":
- The user ...
Most messages hold none: then answer with the one word NONE."""

_BULLET = re.compile(r"\A\s*(?:[-*•+]|\d{1,2}[.)])\s+(.*)\Z")  # `\d`: some models number the lines


def memory_question(turn: Sequence[Message], known: Sequence[str]) -> tuple[PromptMessage, ...]:
    """The question for the facts of a turn, behind the context in which it stands.

    The messages of the user are named by their beginnings: the model has all of the conversation
    before it, and what tools gave back: a web page that says "remember this" is not the user.

    Args:
        turn: the turn's messages, in order.
        known: facts that are remembered already and do not stand in the context.
    """
    said = [message for message in turn if message.role == "user" and _was_said(message)]
    begin = "\n".join(f"> {beginning_of(message.content)}" for message in said[-MAX_MESSAGES:])
    parts = [REMEMBERING, f"{SAID}\n{begin}"]
    if known:
        facts = "\n".join(f"- {fact}" for fact in known)
        parts.append(f"{KNOWN_ALREADY}\n{facts}")
    parts.append(FORM_OF_FACTS)
    return (PromptMessage(role="user", content="\n\n".join(parts), is_guidance=True),)


def beginning_of(content: str) -> str:
    """The first words of a message, on one line."""
    return " ".join(content[: 2 * MAX_BEGINNING].split())[:MAX_BEGINNING].strip()


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
