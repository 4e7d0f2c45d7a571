"""Find and mask secrets before events are logged.

What counts: values of environment variables that are named like secrets, passwords in URLs, and tokens
that show by their form what they are. A log cannot take back what it once said, so this happens before
an event is appended; everything else (requests to models, arguments of tools, read models) is made from
what was appended.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
from msgspec import Struct

from navi.domain.vocabulary.event_codec import encode_data
from navi.domain.vocabulary.events import AgentEvent, Json, JsonObject, UnknownEvent

MASK = "***"
MIN_VALUE = 8  # characters
SHOWN = 2  # first characters of a value that stay: one that comes in pieces is known by the third
CONTEXT = 160  # characters before a piece by which a secret in it may be known
PLAIN_VALUE = 16  # characters from which on a value of small letters alone is no ordinary word
# Ids that clients or navi made up: they are compared, and tell nothing.
UNMASKED = frozenset(
    ("call_id", "id", "memory_id", "memory_ids", "message_id", "node", "owner", "profile_id")
)

_SECRET_NAME = re.compile(
    r"(?:KEY|TOKEN|SECRET|PASSW(?:OR)?D|PASSPHRASE|CREDENTIALS?|_PAT|_AUTH)S?\Z", re.IGNORECASE
)
_OTLP_HEADERS = re.compile(r"OTEL_EXPORTER_OTLP_(?:[A-Z]+_)?HEADERS")
_ANY_URL = re.compile(r"\A[a-z][a-z0-9+.\-]*://", re.IGNORECASE)


class Masked(Struct, frozen=True, kw_only=True):
    """A text without its secrets, and what they were: names of variables, or kinds of tokens."""

    text: str
    names: tuple[str, ...] = ()


class Kind(Struct, frozen=True, kw_only=True):
    """Tokens of one form.

    Attributes:
        anchor: what such a token begins with; it is no secret itself and stays.
        form: of a whole token; of it the group ``secret`` is masked, or all behind the anchor. Of two
            that overlap the one that begins later does not end earlier.
        open: of a token that the end of a text cuts off; ``secret`` likewise.
        follow: what stands behind the anchor of every whole token, also in UTF-8 and in JSON's quotes.
    """

    name: str
    anchor: str
    form: re.Pattern[str]
    open: re.Pattern[str]
    follow: str = ""


def _kind(name: str, anchor: str, form: str, *, follow: str, longest: int = 512) -> Kind:
    """A kind whose tokens go on with up to ``longest`` characters like ``follow``."""
    cut_off = rf"{re.escape(anchor)}{follow}{{0,{longest}}}+\Z"
    return Kind(
        name=name,
        anchor=anchor,
        form=re.compile(form, re.ASCII),
        open=re.compile(cut_off, re.ASCII),
    )


def _token(name: str, anchor: str, rest: str, *, follow: str = r"[\w\-]") -> Kind:
    """A kind whose tokens begin with the anchor, where a word begins."""
    return _kind(name, anchor, rf"(?<![A-Za-z0-9]){re.escape(anchor)}{rest}", follow=follow)


# All that is no digit is passed at once and for good: to try every character takes ten times as long.
_WITH_DIGIT = r"(?=[A-Za-z_\-]{0,512}+\d)"
_PEM = r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY-----"
_PEM_END = r"-----END (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY-----"
_URL_USER, _URL_PASSWORD = r"""[^\s/:@"'<>]{0,128}""", r"""[^\s/@"'<>]"""
KINDS: tuple[Kind, ...] = (
    _token("API key", "sk-", rf"{_WITH_DIGIT}[\w\-]{{20,512}}"),
    *(_token("Stripe key", p, r"\w{16,512}") for p in ("sk_live_", "sk_test_", "rk_live_")),
    *(_token("GitHub token", f"gh{c}_", r"\w{20,512}") for c in "pousr"),
    _token("GitHub token", "github_pat_", r"\w{20,512}"),
    _token("GitLab token", "glpat-", r"[\w\-]{20,512}"),
    *(_token("Slack token", f"xox{c}-", r"[\w\-]{10,512}") for c in "abeoprs"),
    *(_token("AWS key", p, r"[A-Z0-9]{16}") for p in ("AKIA", "ASIA")),
    _token("Google key", "AIza", r"[\w\-]{35}"),
    _token("Google token", "ya29.", r"[\w\-]{20,512}"),
    _token("Hugging Face token", "hf_", r"[A-Za-z0-9]{30,512}"),
    _token("npm token", "npm_", r"[A-Za-z0-9]{36}"),
    _token("PyPI token", "pypi-", r"[\w\-]{50,512}"),
    _token("SendGrid key", "SG.", r"[\w\-]{16,64}\.[\w\-]{16,128}", follow=r"[\w\-.]"),
    _token("navi token", "navi_", r"[0-9a-f\-]{36}_[\w\-]{43}"),
    _token("age key", "AGE-SECRET-KEY-1", r"[A-Z0-9]{58}"),
    _kind(
        "JSON web token",
        "eyJ",
        r"(?<![A-Za-z0-9])eyJ[\w\-]{10,2048}+\.[\w\-]{10,1536}+\.[\w\-]{10,500}",
        follow=r"[\w\-.]",
        longest=4096,
    ),
    _kind(
        "bearer token",
        "earer ",
        r"earer (?P<secret>(?=[\w\-.~+/]{0,512}?\d)[\w\-.~+/]{16,500}={0,2})",
        follow=r"[\w\-.~+/=]",
    ),
    Kind(
        name="password in a URL",
        anchor="://",
        form=re.compile(rf"://{_URL_USER}:(?P<secret>{_URL_PASSWORD}{{8,256}})@"),
        open=re.compile(rf"://{_URL_USER}:(?P<secret>{_URL_PASSWORD}{{0,256}})\Z"),
        follow=r"[^ /@\"'<>]{1,2400}@",
    ),
    Kind(
        name="private key",
        anchor="-----BEGIN ",
        form=re.compile(rf"{_PEM}(?:(?!-----)[\s\S]){{0,16000}}(?:{_PEM_END})?"),
        open=re.compile(
            rf"-----BEGIN (?:[A-Z0-9 ]{{0,100}}-{{0,4}}|[A-Z0-9 ]{{0,100}}PRIVATE KEY-----"
            rf"(?:(?!{_PEM_END})[\s\S]){{0,16384}})\Z"
        ),
    ),
)


def _by_mark(kinds: Iterable[Kind]) -> tuple[tuple[str, tuple[Kind, ...]], ...]:
    """The kinds by something that stands in their anchors, and in few texts."""
    marked: dict[str, list[Kind]] = {}
    for kind in kinds:
        mark = next((mark for mark in ("_", "-") if mark in kind.anchor), kind.anchor)
        marked.setdefault(mark, []).append(kind)
    return tuple((mark, tuple(group)) for mark, group in marked.items())


_BY_MARK = _by_mark(KINDS)

_SELDOM = "_-/.JKI"  # characters that stand in few words, the seldom ones of an anchor first


def _any_anchor() -> str:
    """An expression for every anchor that has a seldom character, and what follows it.

    Each alternative begins with that character, so that a text is gone through in one pass of C which
    stops at few places; what stands before it is looked at only there.
    """
    grouped: dict[tuple[str, int, str], list[str]] = {}
    for kind in KINDS:
        for char in _SELDOM:
            if char in kind.anchor:
                end = kind.anchor.index(char) + 1
                rest = re.escape(kind.anchor[end:]) + kind.follow
                grouped.setdefault((char, end, rest), []).append(kind.anchor[:end])
                break
    found: dict[str, list[str]] = {}
    for (char, _, rest), beginnings in grouped.items():
        before = "|".join(map(re.escape, dict.fromkeys(beginnings)))
        found.setdefault(char, []).append(f"(?<={before}){rest}")
    return "|".join(f"{re.escape(char)}(?:{'|'.join(ends)})" for char, ends in found.items())


_OTHER_ANCHORS = tuple(kind.anchor for kind in KINDS if not set(_SELDOM) & set(kind.anchor))
_token_in_json = re.compile(_any_anchor().encode()).search


class Secrets:
    """What is masked: given values, by name, and tokens of known forms."""

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        """Set the values to mask, without those that are too short or too common."""
        usable = {name: value for name, value in (values or {}).items() if _is_telling(value)}
        # The longest first: one may be the beginning of another.
        self._values = sorted(usable.items(), key=lambda item: -len(item[1]))
        self._begun = [(value[: SHOWN + 1], value) for value in usable.values()]
        # As they stand in JSON, quoted, whatever is before and behind them.
        self._in_json = tuple(_in_json([*_OTHER_ANCHORS, *usable.values()]))

    def mask(self, text: str, *, before: str = "") -> Masked:
        """The text with ``MASK`` in place of every secret; nothing else is changed.

        Args:
            before: what stands before it, where the text is a part of another one: the last
                ``CONTEXT`` characters are enough.
        """
        whole, at, parts = before + text, len(before), list[str]()
        found = sorted(self._found(whole))
        if not found:
            return Masked(text=text)
        for start, end in _joined(found):
            if end > at:
                parts += (whole[at:start], MASK)
                at = end
        names = dict.fromkeys(each.name for each in found)
        return Masked(text="".join((*parts, whole[at:])), names=tuple(names))

    def mask_json(self, value: JsonObject) -> JsonObject:
        """The same with every string in it masked, at any depth; its keys are names, and stay."""
        if not self.may_be_in(msgspec.json.encode(value)):
            return value
        return {key: self._mask_strings(item) for key, item in value.items()}

    def open_at(self, text: str, *, before: str = "") -> int:
        """From which character on the text may still become a secret; its length where it cannot.

        A text that is cut there and masked in two parts is masked like the whole.
        """
        whole, offset = before + text, len(before)
        held = self._cut_off_at(whole)
        for kind in _possible(whole):
            if found := kind.open.search(whole):
                held = min(held, _secret_in(kind, found)[0])
        if held < len(whole):
            # Not through a whole one either.
            for found in sorted(self._found(whole), reverse=True):
                if found.start < held < found.end:
                    held = found.start
        return max(0, held - offset)

    def may_be_in(self, data: bytes) -> bool:
        """Whether JSON as msgspec writes it may hold a secret; for almost all that is said, it cannot."""
        if _token_in_json(data) is not None:
            return True
        # Not with `any`: a generator would take longer than what it asks.
        for part in self._in_json:  # noqa: SIM110
            if part in data:
                return True
        return False

    def _mask_strings(self, value: Json) -> Json:
        match value:
            case str():
                return self.mask(value).text
            case dict():
                items = cast(JsonObject, value)
                return {key: self._mask_strings(item) for key, item in items.items()}
            case list():
                return [self._mask_strings(item) for item in cast("list[Json]", value)]
            case _:
                return value

    def _cut_off_at(self, text: str) -> int:
        """Where the text ends with the beginning of a value; its length where it does not."""
        cut_off_at = len(text)
        for begun, value in self._begun:
            at = text.find(begun, max(0, len(text) - len(value) + 1))
            while at >= 0 and not value.startswith(text[at:]):
                at = text.find(begun, at + 1)
            if at >= 0:
                cut_off_at = min(cut_off_at, at + SHOWN)
        return cut_off_at

    def _found(self, text: str) -> Iterator["_Found"]:
        """The secrets, also those that begin within another, but for what two others cover together."""
        for name, value in self._values:
            at = text.find(value)
            while at >= 0:
                yield _Found(at + SHOWN, at + len(value), name)
                at = text.find(value, at + 1)
        for kind in _possible(text):
            match = kind.form.search(text)
            while match is not None:
                yield _Found(*_secret_in(kind, match), kind.name)
                match = _last_within(kind, text, match) or _next_behind(kind, text, match)


def _in_json(texts: Iterable[str]) -> Iterator[bytes]:
    for text in texts:
        with suppress(UnicodeEncodeError):  # half a character, as no event can hold it
            yield msgspec.json.encode(text)[1:-1]


def _possible(text: str) -> list[Kind]:
    """The kinds whose anchor stands in the text: for almost every piece of text none."""
    return [
        kind for mark, kinds in _BY_MARK if mark in text for kind in kinds if kind.anchor in text
    ]


class _Found(NamedTuple):
    start: int
    end: int
    name: str


def _joined(found: Iterable[_Found]) -> list[tuple[int, int]]:
    """Where secrets stand that are given in order; those that overlap as one."""
    joined: list[tuple[int, int]] = []
    for start, end, _ in found:
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _last_within(kind: Kind, text: str, token: re.Match[str]) -> re.Match[str] | None:
    """The last token whose secret begins within another one; what begins between ends no later.

    A text may begin a token with every third character: to look at each would take a whole token's
    length of time for every one of them.
    """
    end = token.end() - 1
    while (at := text.rfind(kind.anchor, token.start() + 1, end)) >= 0:
        if (found := kind.form.match(text, at)) is not None:
            return found
        end = at + len(kind.anchor) - 1
    return None


def _next_behind(kind: Kind, text: str, token: re.Match[str]) -> re.Match[str] | None:
    """The next token whose secret does not begin within another one."""
    return kind.form.search(text, max(token.start() + 1, token.end() - len(kind.anchor)))


def _secret_in(kind: Kind, match: re.Match[str]) -> tuple[int, int]:
    if "secret" in match.re.groupindex:
        return match.span("secret")
    return match.start() + len(kind.anchor), match.end()


def masked_event(event: AgentEvent, secrets: Secrets) -> AgentEvent:
    """The event without secrets; ``masked`` names what stood there."""
    if type(event) is UnknownEvent or not secrets.may_be_in(encode_data(event)):
        return event
    names: dict[str, None] = {}
    data = _masked_value(msgspec.to_builtins(event), secrets, names)
    if not names:
        return event
    earlier = () if event.masked is msgspec.UNSET else event.masked
    data["masked"] = tuple(dict.fromkeys((*earlier, *names)))
    return msgspec.convert(data, type(event))


def _masked_value(value: Any, secrets: Secrets, names: dict[str, None]) -> Any:
    match value:
        case str():
            masked = secrets.mask(value)
            names.update(dict.fromkeys(masked.names))
            return masked.text
        case dict():
            items = cast("dict[str, Any]", value)
            return {key: _masked_item(key, item, secrets, names) for key, item in items.items()}
        case list() | tuple():
            return [_masked_value(item, secrets, names) for item in cast("list[Any]", value)]
        case _:
            return value


def _masked_item(key: str, value: Any, secrets: Secrets, names: dict[str, None]) -> Any:
    if key in UNMASKED:
        return value
    if key == "arguments":
        return _masked_arguments(value, secrets, names)
    return _masked_value(value, secrets, names)


def _masked_arguments(value: Any, secrets: Secrets, names: dict[str, None]) -> Any:
    """What a model made up: its keys are words, too, and what it calls an id may be anything."""
    match value:
        case dict():
            masked: dict[str, Any] = {}
            for key, item in cast("dict[str, Any]", value).items():
                name: str = _masked_value(key, secrets, names)
                while name in masked:  # two keys that were not the same before
                    name += MASK
                masked[name] = _masked_arguments(item, secrets, names)
            return masked
        case list() | tuple():
            return [_masked_arguments(item, secrets, names) for item in cast("list[Any]", value)]
        case _:
            return _masked_value(value, secrets, names)


def secret_values(environment: Mapping[str, str]) -> dict[str, str]:
    """The values in an environment that are nobody's business, by the names of their variables."""
    found: dict[str, str] = {}
    for name, value in environment.items():
        if _SECRET_NAME.search(name):
            found[name] = value.strip()
        elif _OTLP_HEADERS.fullmatch(name):
            for number, (_, _, header) in enumerate(h.partition("=") for h in value.split(",")):
                if words := unquote(header).split():  # "Bearer KEY"; the key alone
                    found[f"{name} {number}"] = words[-1]
        elif _ANY_URL.match(value) and (password := password_in(value)) is not None:
            found[name] = password
    return found


def password_in(url: str) -> str | None:
    """The password, or the token, that stands in a URL; None without one."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    # NATS takes a token in the place of the user's name, Postgres a password among what follows the "?".
    token = parts.username if parts.scheme in ("nats", "tls", "ws", "wss") else None
    if secret := parts.password or token:
        return unquote(secret)
    return dict(parse_qsl(parts.query)).get("password")


def _is_telling(value: str) -> bool:
    """Whether a value is long and odd enough, so that masking it does not hit ordinary words."""
    plain = value.isalpha() and value.islower()
    return len(value) >= (PLAIN_VALUE if plain else MIN_VALUE)
