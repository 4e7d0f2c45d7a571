"""What differs between two events, in lines that a person reads."""

from collections.abc import Mapping, Sequence
from itertools import takewhile

import msgspec

from navi.domain.vocabulary.events import Json, JsonObject

HASH = "_sha256"  # ends the names of fields that stand for a text, or for a whole request


def field_lines(
    before: JsonObject,
    after: JsonObject,
    fields: Sequence[str],
    *,
    width: int,
    texts: Mapping[str, str] | None = None,
) -> list[str]:
    """For each field a line ``- name: value`` and a line ``+ name: value``, as far as it is there.

    Args:
        width: characters that a line may have; what is longer is cut around the first difference.
        texts: by hash; where a field holds one, the text stands there in its place. Without them such
            fields have no lines: two hashes say nothing.
    """
    lines: list[str] = []
    for name in fields:
        if texts is None and name.endswith(HASH):
            continue
        label = name.removesuffix(HASH)
        room = width - len(label) - 4
        cut = excerpts(
            *(_shown(side.get(name), texts or {}) for side in (before, after)), width=room
        )
        lines += [
            f"{mark} {label}: {value}"
            for mark, side, value in zip("-+", (before, after), cut, strict=True)
            if name in side
        ]
    return lines


def event_line(kind: str, data: JsonObject) -> str:
    """An event on one line, without what is empty and without hashes."""
    values = (
        f"{name}={_shown(value, {})}"
        for name, value in data.items()
        if value not in (None, "", False, [], {}) and not name.endswith(HASH)
    )
    return " ".join((kind, *values))


def excerpts(before: str, after: str, *, width: int) -> tuple[str, str]:
    """Two texts, each on one line of at most ``width`` characters that shows the first difference."""
    lines = [" ".join(text.split()) for text in (before, after)]
    if before != after and lines[0] == lines[1]:  # they differ in white space alone
        lines = [msgspec.json.encode(text).decode() for text in (before, after)]
    differs = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*lines, strict=False)))
    start = 0
    if max(map(len, lines)) > width and differs > width // 2:
        start = differs - width // 3
    first, second = (_cut(line, start, width) for line in lines)
    return first, second


def _cut(line: str, start: int, width: int) -> str:
    room = max(2, width)
    if start:
        line = f"…{line[start + 1 :]}"
    return line if len(line) <= room else f"{line[: room - 1]}…"


def _shown(value: Json, texts: Mapping[str, str]) -> str:
    if isinstance(value, str):
        return texts.get(value, value)
    return msgspec.json.encode(value).decode()
