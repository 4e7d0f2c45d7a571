"""The policy on tool calls: which are allowed, which are denied, and which a person is asked about."""

import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import assert_never
from unicodedata import category

import msgspec
from msgspec import UNSET, Struct, UnsetType

from navi.domain.agent.profile import ApprovalRule
from navi.domain.vocabulary.events import Json, JsonObject

MAX_MATCHED = 65_536  # characters of an argument that a rule looks at
MAX_PREVIEW = 32_768  # characters
SHORT_PREVIEW = 1_000  # characters, where the arguments leave an event no room for more
MOST_BESIDE_PREVIEW = 512 * 1024  # bytes of arguments
MAX_TOLD = 4_000  # characters of edited arguments that the model is told
DENIED = "The user has denied this call."
DENIED_FOR_SESSION = "The user has denied such calls for the whole session."
CHANGED = (
    "This call was not run: what it would do has changed since it was asked about. "
    "Call it again to have it asked about as it is now."
)

# Whether an expression is found in a text; None where that cannot be told in time.
Search = Callable[[str, str], bool | None]


class Ask(Struct, frozen=True, kw_only=True):
    """A person is asked.

    Attributes:
        reason: why, in words.
        rule: what asks: a decision for the session holds for all that has the same.
        tool_rule: as of ``ApprovalRequested``.
    """

    reason: str
    rule: str
    tool_rule: str | UnsetType = UNSET


class Allow(Struct, frozen=True, kw_only=True):
    """The call is run."""


class Deny(Struct, frozen=True, kw_only=True):
    """The call is not run; ``reason`` is what the model reads."""

    reason: str


Verdict = Allow | Ask | Deny


def judge(
    rules: Sequence[ApprovalRule],
    name: str,
    arguments: JsonObject,
    *,
    default: Ask | None,
    search: Search,
) -> Verdict:
    """What the first rule that fits says of a call; where none does, what the tool asks by itself.

    Args:
        default: what is asked where no rule fits; None where such a call is allowed.
        search: looks for the expressions of the rules.
    """
    for rule in rules:
        if not _fits(rule, name, arguments, search):
            continue
        match rule.then:
            case "allow":
                return Allow()
            case "ask":
                return Ask(reason=f"A rule of the profile asks: {in_words(rule)}.", rule=_key(rule))
            case "deny":
                said = f"A rule of the profile forbids this call: {in_words(rule)}."
                return Deny(reason=said)
            case _:
                assert_never(rule.then)
    return Allow() if default is None else default


def strictest(verdicts: Sequence[Verdict]) -> Verdict:
    """The one that lets the least through; of several that ask the first."""
    for kind in (Deny, Ask):
        for verdict in verdicts:
            if isinstance(verdict, kind):
                return verdict
    return Allow()


def in_words(rule: ApprovalRule) -> str:
    """What a rule is about, in a few words."""
    conditions = [f"{name} matching {pattern!r}" for name, pattern in rule.match.items()]
    return " with ".join([rule.tool, *(" and ".join(c) for c in [conditions] if c)])


def edit_mark(arguments: JsonObject) -> str:
    """What stands before a result whose call had arguments of a person, and not the model's."""
    told = as_json(arguments)
    if len(told) > MAX_TOLD:
        told = f"{told[:MAX_TOLD]}… ({len(told):,} characters)"
    return f"[The user changed the arguments of this call to {told}]\n"


def as_json(value: Json) -> str:
    """A value as JSON on one line, letters of all languages as they are."""
    return msgspec.json.encode(value).decode()


def as_readable_json(arguments: JsonObject) -> str:
    """What a call would do where its tool says nothing better: its arguments, a line each."""
    return msgspec.json.format(msgspec.json.encode(arguments), indent=2).decode()


# Characters that a terminal or a page would not show as what they are. Some are letters to a compiler:
# a variable whose name nobody sees ("The Invisible JavaScript Backdoor", certitude.consulting, 2021).
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029"  # Cc but line end and tab; Zl, Zp
# Default_Ignorable_Code_Point, of DerivedCoreProperties.txt of Unicode 16.0.
_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
# What else is of category Cf: marks of single scripts, and of notes between the lines.
_FORMATS = (
    "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\ufff9-\ufffb\U000110bd\U000110cd"
    "\U00013430-\U0001343f"
)
_HIDDEN = re.compile(f"[{_CONTROLS}{_IGNORABLE}{_FORMATS}]")
_AS_PICTURE = "\ufe0f"  # behind a symbol: the colours of an emoji, which is to be seen


def shown_preview(text: str, arguments: JsonObject) -> str:
    """A preview within its bounds, in which nothing hides: what is not visible stands as its code."""
    whole = _HIDDEN.sub(_written_out, text)
    large = len(msgspec.json.encode(arguments)) > MOST_BESIDE_PREVIEW
    most = SHORT_PREVIEW if large else MAX_PREVIEW
    if len(whole) <= most:
        return whole
    return f"{whole[:most]}\n[{len(whole) - most:,} more characters are not shown]"


def _written_out(found: re.Match[str]) -> str:
    """A character as its code in Python; as it is where it makes an emoji of the symbol before it."""
    text, at = found.string, found.start()
    if found[0] == _AS_PICTURE and at and category(text[at - 1]) == "So":
        return _AS_PICTURE
    code = ord(found[0])
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _fits(rule: ApprovalRule, name: str, arguments: JsonObject, search: Search) -> bool:
    if not fnmatchcase(name, rule.tool):
        return False
    return all(_matches(rule, arguments, key, search) for key in rule.match)


def _matches(rule: ApprovalRule, arguments: JsonObject, key: str, search: Search) -> bool:
    if key not in arguments:
        return False
    value = arguments[key]
    text = value if isinstance(value, str) else as_json(value)
    found = search(rule.match[key], text) if len(text) <= MAX_MATCHED else None
    # What cannot be told is not allowed by it, and asked about or denied.
    return rule.then != "allow" if found is None else found


def is_of_profile(rule: str) -> bool:
    """Whether what has asked is a rule of a profile; what a tool asks by begins with its name."""
    return rule.startswith("{")


def _key(rule: ApprovalRule) -> str:
    return as_json({"tool": rule.tool, "match": rule.match})
