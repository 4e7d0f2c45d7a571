"""The difference between a file and what it would become, as people read it."""

from difflib import unified_diff
from itertools import islice

LARGEST = 256 * 1024  # bytes of a text that is compared line by line
MOST_LINES = 5_000
SHOWN_LINES = 1_000

# As `diff` says it of a text that does not end with a line.
_NO_LINE_END = "\\ No newline at end of file"


def file_difference(path: str, before: bytes | None, after: bytes) -> str:
    """A unified diff, within bounds; of what is no text or too long, the sizes.

    Args:
        before: None where there is no such file.
    """
    old, new = before or b"", after
    if before == after:
        return f"{path} stays as it is ({len(after):,} bytes)."
    if _is_long(old) or _is_long(new) or b"\0" in old or b"\0" in new:
        if before is None:
            return f"{path} would be made, with {len(new):,} bytes."
        return f"{path} has {len(old):,} bytes, and would have {len(new):,}."
    lines = unified_diff(
        _lines(old), _lines(new), "/dev/null" if before is None else path, path, lineterm=""
    )
    shown = list(islice(lines, SHOWN_LINES + 1))
    if len(shown) > SHOWN_LINES:
        shown[SHOWN_LINES:] = ["[more of the difference is not shown]"]
    return "\n".join(shown).replace(_MARK, f"\n{_NO_LINE_END}")


_MARK = "\0"  # stands in no text that is compared


def _lines(data: bytes) -> list[str]:
    lines = data.decode("utf-8", "replace").split("\n")
    # What follows the last line end is a line of its own only where there is something.
    return lines[:-1] if not lines[-1] else [*lines[:-1], lines[-1] + _MARK]


def _is_long(data: bytes) -> bool:
    return len(data) > LARGEST or data.count(b"\n") > MOST_LINES
