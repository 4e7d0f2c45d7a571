"""What a file of own tools cannot offer is said in words that name the function and the parameter."""

import pytest

from navi.adapters.tools.own_tools.loading import LoadedFile, load_functions
from navi.adapters.tools.own_tools.wire import Source

IMPORTS = "from pathlib import Path\nfrom typing import Any\n"


def loaded(text: str, file: str = "mine.py") -> LoadedFile:
    return load_functions(Source(file=file, path=file, text=IMPORTS + text))


def problems_of(text: str) -> tuple[str, ...]:
    return loaded(text).problems


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
            "from dataclasses import make_dataclass\nkind = str\nfor n in range(14):\n"
            "    kind = make_dataclass(f'L{n}', [('a', kind), ('b', kind)])\n"
            "async def f(a: kind): ...",
            "f: with its references written out, its schema has too many parts",
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


@pytest.mark.parametrize("file", ["test_tea.py", "conftest.py"])
def test_of_tests_nobody_expects_tools(file: str) -> None:
    assert loaded("def test_tea(): ...", file).problems == ()
    assert loaded("def test_tea(): ...", "tea.py").problems != ()


def test_a_method_of_an_object_is_a_tool() -> None:
    weather = "class _W:\n    async def forecast(self, city: str): ...\nforecast = _W().forecast"

    [forecast] = loaded(weather).functions

    assert forecast.description.parameters["required"] == ["city"]
