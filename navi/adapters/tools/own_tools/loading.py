"""Load a file of own tools: its functions and their arguments."""

import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Coroutine, Mapping
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta, Struct

from navi.adapters.tools.arguments import schema_of
from navi.adapters.tools.own_tools.docstrings import parse_docstring
from navi.adapters.tools.own_tools.helpers import keep_lines
from navi.adapters.tools.own_tools.wire import Source
from navi.domain.tools.schema_references import SchemaTooLarge
from navi.domain.tools.tool_output import clean_text
from navi.domain.vocabulary.events import Json, JsonObject
from navi.ports.tools import ToolDescription

CONTEXT = "context"  # the parameter that gets the ToolContext
SAFE_TO_REPEAT = "SAFE_TO_REPEAT"

# What the APIs of model servers take as a function's name.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")

# What people keep beside their tools, and nobody takes for one.
_OF_TESTS = re.compile(r"test_.*\.py|conftest\.py")

Function = Callable[..., Coroutine[Json, Json, Json]]


class OwnFunction(Struct, frozen=True, kw_only=True):
    """A tool as its process runs it."""

    function: Function
    path: str
    arguments: type[Struct]
    takes_context: bool
    description: ToolDescription


class NotATool(Exception):
    """A function or file cannot be offered; the message is for the user who wrote it."""


class LoadedFile(Struct, frozen=True, kw_only=True):
    """The tools of a file, and what in it cannot be offered, in words."""

    functions: tuple[OwnFunction, ...]
    problems: tuple[str, ...]


def load_functions(source: Source) -> LoadedFile:
    """Run a file and take its public async functions.

    Raises:
        BaseException: whatever the file itself raises.
    """
    name = "own_tools_" + re.sub(r"\W", "_", source.file.removesuffix(".py"))
    module = types.ModuleType(name)
    module.__file__ = source.path
    # Dataclasses and type hints look their module up by its name.
    sys.modules[name] = module
    keep_lines(source.path, source.text)
    code = compile(source.text, source.path, "exec")
    exec(code, module.__dict__)  # noqa: S102 - running the user's own files is what this is for
    public = {
        key: value
        for key, value in vars(module).items()
        if not key.startswith("_")
        and inspect.isroutine(value)
        and getattr(value, "__module__", None) == name  # not what the file imported
    }
    functions = {
        key: cast(Function, value)
        for key, value in public.items()
        if inspect.iscoroutinefunction(value)
    }
    problems = [
        f"{key}: a tool returns what it has to say; this one yields"
        for key, value in public.items()
        if inspect.isasyncgenfunction(value)
    ]
    if public and not functions and not problems and _OF_TESTS.fullmatch(source.file) is None:
        problems.append(f"offers no tool: {', '.join(public)} would have to be `async def`")
    safe = _safe_to_repeat(module, functions, problems)
    tools: list[OwnFunction] = []
    for key, function in functions.items():
        try:
            tools.append(_tool(key, function, safe_to_repeat=key in safe, source=source))
        except NotATool as error:
            problems.append(str(error))
    return LoadedFile(functions=tuple(tools), problems=tuple(problems))


def _safe_to_repeat(
    module: types.ModuleType, functions: dict[str, Function], problems: list[str]
) -> set[str]:
    names: object = getattr(module, SAFE_TO_REPEAT, ())
    if isinstance(names, str) or not isinstance(names, set | frozenset | tuple | list):
        problems.append(f"{SAFE_TO_REPEAT} is not a set of names")
        return set()
    problems.extend(
        f"{SAFE_TO_REPEAT} names {name!r}, which is no tool of this file"
        for name in cast(set[object], names)
        if name not in functions
    )
    return set(cast(set[str], names))


def _tool(name: str, function: Function, *, safe_to_repeat: bool, source: Source) -> OwnFunction:
    if _NAME.fullmatch(name) is None:
        raise NotATool(f"{name}: a tool's name has 1 to 64 of A-Z, a-z, 0-9 and _")
    description, described = parse_docstring(clean_text(inspect.getdoc(function) or ""))
    arguments, takes_context = _arguments(name, function, described)
    parameters = _schema(name, arguments)
    return OwnFunction(
        function=function,
        path=source.path,
        arguments=arguments,
        takes_context=takes_context,
        description=ToolDescription(
            name=name,
            description=description,
            parameters=parameters,
            safe_to_repeat=safe_to_repeat,
            source=source.file,
        ),
    )


def _schema(name: str, arguments: type[Struct]) -> JsonObject:
    for field in msgspec.structs.fields(arguments):
        try:
            msgspec.json.schema(field.type)
        except TypeError as error:
            raise NotATool(
                f"{name}: {field.name} has a type that JSON does not know ({_type_name(field.type)}); "
                "str, int, float, bool, list, dict, Literal, enums and dataclasses can be taken"
            ) from error
    try:
        # Defaults may be anything; what a schema says must be JSON.
        return msgspec.json.decode(msgspec.json.encode(schema_of(arguments)))
    except SchemaTooLarge as error:
        raise NotATool(f"{name}: {error}") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise NotATool(f"{name}: a default is not a JSON value: {error}") from error


def _type_name(hint: Any) -> str:
    """A type as its annotation names it."""
    if typing.get_origin(hint) is Annotated:
        hint = typing.get_args(hint)[0]
    return hint.__name__ if isinstance(hint, type) else str(hint)


def _arguments(
    name: str, function: Function, described: Mapping[str, str]
) -> tuple[type[Struct], bool]:
    parameters = dict(inspect.signature(function).parameters)
    takes_context = parameters.pop(CONTEXT, None) is not None
    hints = _hints(name, function)
    fields: list[tuple[str, Any, Any]] = []
    for key, parameter in parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise NotATool(f"{name}: *{key} cannot be described to a model; name each parameter")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise NotATool(f"{name}: {key} is positional only; arguments come by name")
        hint = _described(hints.get(key, Any), described.get(key))
        if parameter.default is parameter.empty:
            fields.append((key, hint, msgspec.NODEFAULT))
        elif parameter.default is None:
            fields.append((key, hint | None, None))
        else:
            fields.append((key, hint, _default(parameter.default)))
    try:
        kind = msgspec.defstruct(
            "Arguments", fields, kw_only=True, frozen=True, forbid_unknown_fields=True
        )
    except (TypeError, ValueError) as error:
        raise NotATool(f"{name}: {error}") from error
    return kind, takes_context


def _hints(name: str, function: Function) -> dict[str, Any]:
    # The context's annotation is not needed, and often names a class that is imported for type
    # checkers only.
    annotations = {
        key: value
        for key, value in getattr(function, "__annotations__", {}).items()
        if key not in (CONTEXT, "return")
    }
    described = types.SimpleNamespace(__annotations__=annotations)
    try:
        return typing.get_type_hints(
            described, globalns=inspect.unwrap(function).__globals__, include_extras=True
        )
    except (NameError, TypeError, SyntaxError) as error:
        raise NotATool(f"{name}: an annotation cannot be understood: {error}") from error


def _described(hint: Any, said: str | None) -> Any:
    """``Annotated[str, "the city"]`` says what the parameter is, else the docstring does."""
    inner, notes = hint, ()
    if typing.get_origin(hint) is Annotated:
        inner, *notes = typing.get_args(hint)
    if said is not None:
        inner = Annotated[inner, Meta(description=said)]
    for note in notes:
        if isinstance(note, str):
            inner = Annotated[inner, Meta(description=clean_text(note))]
        elif isinstance(note, Meta):
            inner = Annotated[inner, note]
    return inner


def _default(value: object) -> object:
    """A default as a struct takes it: what could be changed in place is made anew for each call."""
    match value:
        case list() | dict() | set() | bytearray() if (
            value
        ):  # msgspec does so with empty ones itself
            copy = cast(Callable[[], object], value.copy)
            return msgspec.field(default_factory=copy)
        case _:
            return value
