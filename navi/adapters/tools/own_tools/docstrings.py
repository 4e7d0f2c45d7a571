"""What a docstring says of a function and of each of its parameters."""

import re
from collections.abc import Iterator, Mapping

_GOOGLE = re.compile(r"(?:(?:Keyword )?(?:Args|Arguments)|(?:Other )?Parameters|Params):\s*")
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(?P<name>\w+)(?:\s*\(.*?\))?:\s*(?P<text>.*)")
_NUMPY = re.compile(r"(?:Other )?Parameters\s*")
_NUMPY_ENTRY = re.compile(r"(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?")
_RULER = re.compile(r"-{3,}\s*")


def parse_docstring(text: str) -> tuple[str, Mapping[str, str]]:
    """The description of a function, and of its parameters by name.

    The sections of Google's and of NumPy's style that describe parameters are taken out; all else
    stays as it is.

    Args:
        text: cleaned of its indentation, as ``inspect.getdoc`` gives it.
    """
    lines = text.splitlines()
    kept: list[str] = []
    described: dict[str, str] = {}
    at = 0
    while at < len(lines):
        if _GOOGLE.fullmatch(lines[at]) and _indent(lines, at + 1) > 0:
            end = _end_of_indented(lines, at + 1)
            described.update(_google(lines[at + 1 : end]))
        elif _NUMPY.fullmatch(lines[at]) and _is_ruler(lines, at + 1):
            end = _end_of_section(lines, at + 2)
            described.update(_numpy(lines[at + 2 : end]))
        else:
            kept.append(lines[at])
            at += 1
            continue
        at = end
    description = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
    return description, {name: said for name, said in described.items() if said}


def _google(lines: list[str]) -> Iterator[tuple[str, str]]:
    depth = _indent(lines, 0)
    for block in _blocks(lines, depth):
        entry = _GOOGLE_ENTRY.match(block[0])
        if entry is not None:
            yield entry["name"], _joined([entry["text"], *block[1:]])


def _numpy(lines: list[str]) -> Iterator[tuple[str, str]]:
    for block in _blocks(lines, 0):
        entry = _NUMPY_ENTRY.fullmatch(block[0].strip())
        if entry is not None:
            for name in entry["names"].split(","):
                yield name.strip(" *"), _joined(block[1:])


def _blocks(lines: list[str], depth: int) -> Iterator[list[str]]:
    """Lines that begin at a depth, each with the deeper ones that follow it."""
    block: list[str] = []
    for line in lines:
        if line.strip() and len(line) - len(line.lstrip()) <= depth and block:
            yield block
            block = []
        if line.strip():
            block.append(line.strip())
    if block:
        yield block


def _joined(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines if line.strip())


def _indent(lines: list[str], at: int) -> int:
    """How far the first line that is not empty is indented."""
    for line in lines[at:]:
        if line.strip():
            return len(line) - len(line.lstrip())
    return 0


def _end_of_indented(lines: list[str], at: int) -> int:
    while at < len(lines) and (not lines[at].strip() or lines[at][0].isspace()):
        at += 1
    return at


def _end_of_section(lines: list[str], at: int) -> int:
    """Where NumPy's next section begins, whose title stands above a ruler, or plain text goes on."""
    while at < len(lines) and not _is_ruler(lines, at + 1):
        line = lines[at]
        if line.strip() and not line[0].isspace() and _NUMPY_ENTRY.fullmatch(line) is None:
            break
        at += 1
    return at


def _is_ruler(lines: list[str], at: int) -> bool:
    return at < len(lines) and _RULER.fullmatch(lines[at]) is not None
