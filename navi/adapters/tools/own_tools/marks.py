"""Marks between the lines that a process of own tools prints: they say whose the lines are.

They come through the same pipe, so none is taken for another's. They begin with NUL, and a tool that
writes one misleads only the reader of its own lines.
"""

MARK = b"\0navi "


def file_mark(file: str) -> bytes:
    """What follows is printed while a file is loaded."""
    return b"\n" + MARK + b"file " + file.encode("utf-8", "replace") + b"\n"


def tool_mark(name: str) -> bytes:
    """What follows is printed by a tool."""
    return b"\n" + MARK + b"tool " + name.encode() + b"\n"


def end_mark(call_id: str) -> bytes:
    """A call ended, or the loading (with an empty id)."""
    return b"\n" + MARK + b"end " + call_id.encode() + b"\n"
