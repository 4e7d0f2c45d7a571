"""What navi overrides and uses of uvicorn's inside is there: uvicorn promises none of it."""

import ast
import inspect
import textwrap

import pytest

from navi.http.server import serve
from navi.http.server.request_protocol import DeadlineH11Protocol
from navi.http.server.websocket_protocol import BurstWebSocketProtocol

OURS = [DeadlineH11Protocol, BurstWebSocketProtocol, serve._Server]


@pytest.mark.parametrize("ours", OURS)
def test_every_public_method_overrides_one_and_no_private_one_does(ours: type) -> None:
    methods = {name for name, value in vars(ours).items() if inspect.isfunction(value)}
    theirs = set(dir(ours.__mro__[1]))

    public = {name for name in methods if not name.startswith("_")}
    private = {name for name in methods if name.startswith("_") and not name.endswith("__")}

    assert public <= theirs
    assert private & theirs == set()


@pytest.mark.parametrize("ours", OURS)
def test_every_attribute_that_is_read_is_set_by_uvicorn_or_here(ours: type) -> None:
    known = set(dir(ours)).union(*(_attributes(cls, ast.Store) for cls in ours.__mro__[:-1]))

    assert _attributes(ours, ast.Load) <= known


def _attributes(cls: type, context: type[ast.expr_context]) -> set[str]:
    """The attributes of ``self`` that a class reads or sets."""
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):
        return set()  # written in C
    return {
        node.attr
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
        and isinstance(node.ctx, context)
    }
