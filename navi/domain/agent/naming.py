"""Name a session after its first exchange: the request to the model, and its answer."""

import re

from navi.domain.context.prompt import PromptMessage

MAX_NAME = 60  # characters: what a list of sessions shows on one line

ASK_FOR_NAME = """\
Write a name for this conversation, so that its user finds it again in a list: two to six words that \
say what it is about, in the language of the user. No quotes, no full stop, no Markdown, no words such \
as "conversation" or "request". Use no tools. Answer with the name alone, on one line."""

# What a template leaves in the text where a server does not part thinking from speaking; the opening
# tag is missing where the template has put it into the prompt, the closing one where tokens ran out.
_THINKING_ENDS = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_THINKING_RUNS_ON = re.compile(r"\A\s*<think(?:ing)?>.*\Z", re.DOTALL | re.IGNORECASE)
_LABEL = re.compile(
    r"\A(?:(?:session|conversation|chat)\s+)?(?:name|title|titel)\s*[:=]\s*", re.IGNORECASE
)
_QUOTES = " *_`~\"'“”„‟«»‹›‘’‚「」"  # noqa: RUF001 - quotation marks of several languages
_BEFORE = f"{_QUOTES}#>-•"
_AFTER = f"{_QUOTES}.,;:。"


def naming_question() -> tuple[PromptMessage, ...]:
    """The question for a name, behind the context."""
    return (PromptMessage(role="user", content=ASK_FOR_NAME, is_guidance=True),)


def clean_name(text: str) -> str | None:
    """The name in a model's answer, one line of at most ``MAX_NAME`` characters; None without one."""
    for line in without_thinking(text).splitlines():
        if line.lstrip().startswith("```"):
            continue
        printable = "".join(c if c.isprintable() else " " for c in line)
        name = _LABEL.sub("", _bare(printable))
        if name := _bare(_shortened(_bare(name))):
            return name
    return None


def is_named(answer: str) -> bool:
    """Whether an answer that is still being written has its one line with a name."""
    whole, newline, _ = answer.rpartition("\n")
    return bool(newline) and clean_name(whole) is not None


def without_thinking(text: str) -> str:
    """A model's answer without the thinking that some servers leave in it, in ``<think>`` tags."""
    return _THINKING_RUNS_ON.sub("", _THINKING_ENDS.sub("", text)).strip()


def _bare(text: str) -> str:
    """The words without spaces to spare, and without marks around them."""
    return " ".join(text.split()).lstrip(_BEFORE).rstrip(_AFTER)


def _shortened(name: str) -> str:
    if len(name) <= MAX_NAME:
        return name
    beginning = name[: MAX_NAME - 1]
    words, _, _ = beginning.rpartition(" ")
    return f"{words or beginning}…"
