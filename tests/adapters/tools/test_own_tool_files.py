"""What a file of own tools cannot offer is said in words that name the function and the parameter."""

import pytest

from navi.adapters.tools.own_tools.loading import load_functions
from navi.adapters.tools.own_tools.wire import Source

IMPORTS = "from pathlib import Path\nfrom typing import Any\n"


def problems_of(text: str) -> tuple[str, ...]:
    return load_functions(Source(file="mine.py", path="mine.py", text=IMPORTS + text)).problems


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "async def f(a: int, where: Path = None): ...",
            "f: where has a type that JSON does not know (pathlib.Path | None); "
            "str, int, float, bool, list, dict, Literal, enums and dataclasses can be taken",
        ),
        (
            "async def f(a: list[object]):\n    '''Do.\n\n    Args:\n        a: what\n    '''",
            "f: a has a type that JSON does not know (list[object]); "
            "str, int, float, bool, list, dict, Literal, enums and dataclasses can be taken",
        ),
        (
            "async def f(a: int = object()): ...",
            "f: a default is not a JSON value: Encoding objects of type object is unsupported",
        ),
        (
            "async def f():\n    yield 1",
            "f: a tool returns what it has to say; this one yields",
        ),
        (
            "def f(city: str): ...\ndef g(): ...",
            "offers no tool: f, g would have to be `async def`",
        ),
    ],
)
def test_what_cannot_be_offered_is_named(text: str, problem: str) -> None:
    assert problems_of(text) == (problem,)


@pytest.mark.parametrize(
    "text", ["", "LIMIT = 3", "def parse(text): ...\nasync def f(): ...", "class Place: ..."]
)
def test_what_stands_beside_tools_is_nobodys_fault(text: str) -> None:
    assert problems_of(text) == ()
