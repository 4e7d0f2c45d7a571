"""Names of tools of MCP servers, as model servers take them."""

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256

MAX_NAME = 64  # characters that the APIs of model servers take as a function's name


def is_of(server: str, name: str) -> bool:
    """Whether a name is of a tool that the server of that id might offer."""
    return name.startswith(f"{server}__")


def offered_names(server: str, tools: Sequence[str]) -> Mapping[str, str]:
    """What each tool of a server is offered as, by its own name: ``<server>__<tool>``.

    A name that had to be changed gives way where another tool has it by right, and is told apart by
    a hash of its own; the same tools have the same names in any order.

    Args:
        server: the server's id: without two underscores in a row, none at its end.
        tools: their own names, no two the same.
    """
    plain = {tool: f"{server}__{re.sub(r'[^A-Za-z0-9_-]', '_', tool)}" for tool in tools}
    by_right = {name for tool, name in plain.items() if name == f"{server}__{tool}"}
    claims = tuple(plain.values())
    named: dict[str, str] = {}
    for tool, name in plain.items():
        kept = name == f"{server}__{tool}" or (name not in by_right and claims.count(name) == 1)
        if kept and len(name) <= MAX_NAME:
            named[tool] = name
        else:
            mark = sha256(tool.encode()).hexdigest()[:8]
            named[tool] = f"{name[: MAX_NAME - 9]}_{mark}"
    return named
