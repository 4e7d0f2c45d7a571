"""All that is wrong with the arguments of a call is said at once, each fault by its place."""

from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from msgspec import Meta, Struct, defstruct

from navi.adapters.tools.arguments import MOST_TOLD, problem_with, schema_of
from navi.domain.tools.schema_references import SchemaTooLarge
from navi.domain.vocabulary.events import JsonObject


@dataclass
class Place:
    city: str
    floor: int = 0


class Arguments(Struct, kw_only=True, forbid_unknown_fields=True):
    places: list[Place] = []
    start: Place | None = None
    prices: dict[str, float] = {}
    unit: Literal["C", "F"] = "C"
    counts: list[int] = []


SCHEMA = schema_of(Arguments)


class Tree(Struct):
    name: Annotated[str, Meta(description="What it is called.")]
    below: Annotated[list["Tree"], Meta(description="Its branches.")] = []


class Planted(Struct):
    tree: Annotated[Tree, Meta(description="The first.")]
    place: Place | None = None


def test_references_are_written_out_but_for_what_holds_itself() -> None:
    tree = {
        "type": "object",
        "properties": {
            "name": {"description": "What it is called.", "type": "string"},
            "below": {
                "description": "Its branches.",
                "type": "array",
                "items": {"$ref": "#/$defs/Tree"},
            },
        },
        "required": ["name"],
    }

    assert schema_of(Planted) == {
        "type": "object",
        "properties": {
            "tree": {**tree, "description": "The first."},
            "place": {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "floor": {"type": "integer", "default": 0},
                },
                "required": ["city"],
            },
        },
        "required": ["tree"],
        "$defs": {"Tree": tree},
    }


def test_kinds_that_hold_one_another_twice_are_bounded() -> None:
    kind: type[Struct] = Tree
    for level in range(14):
        kind = defstruct(f"Level{level}", [("left", kind), ("right", kind)])

    with pytest.raises(SchemaTooLarge):
        schema_of(kind)


@pytest.mark.parametrize(
    ("arguments", "faults"),
    [
        (
            {"places": [{"city": 1}, {"city": "Delft", "floor": "two"}, {"floor": 1}]},
            [
                "argument places[0].city: expected str, got int",
                "argument places[1].floor: expected int, got str",
                "argument places[2].city: is missing",
            ],
        ),
        (
            {"start": {"floor": "two"}, "unit": "K"},
            [
                "argument start.city: is missing",
                "argument start.floor: expected int, got str",
                "argument unit: invalid enum value 'K'; allowed: C, F",
            ],
        ),
        (
            {"prices": {"tea": "dear", "milk": 1, "rice": []}},
            [
                "argument prices.tea: expected float, got str",
                "argument prices.rice: expected float, got list",
            ],
        ),
        (
            {"places": [{"city": "Delft", "floor": None}, {"city": ["Gent"], "floor": None}]},
            ["argument places[1].city: expected str, got list"],
        ),
        (
            {"places": [{"city": 1, "floor": None}, {"city": None}]},
            [
                "argument places[0].city: expected str, got int",
                "argument places[1].city: expected str, got NoneType",
            ],
        ),
        (
            {"places": "none", "count": 1},
            [
                "argument count: is not an argument of this tool;"
                " there are: places, start, prices, unit, counts",
                "argument places: expected array, got str",
            ],
        ),
    ],
)
def test_every_fault_is_named_by_its_place(arguments: JsonObject, faults: list[str]) -> None:
    told = problem_with(Arguments, SCHEMA, arguments)

    assert told is not None
    said = told.removeprefix("argument ").split("; argument ")
    assert sorted(f"argument {one}" for one in said) == sorted(faults)


def test_what_can_be_taken_is_no_fault() -> None:
    assert problem_with(Arguments, SCHEMA, {"counts": ["5", 6], "start": None}) is None


def test_of_very_many_faults_the_first_are_named_and_that_there_are_more() -> None:
    told = problem_with(Arguments, SCHEMA, {"counts": ["x"] * 500})

    assert told is not None
    assert told.endswith("; and more")
    assert told.count("argument") == MOST_TOLD
