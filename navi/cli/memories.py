"""``navi memories``: list, search, add, edit, forget."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import click

from navi.application.memory.manage_memories import ManageMemories
from navi.bootstrap.log_ports import attached_services
from navi.cli.command import (
    HOLDS,
    CommandFailed,
    data_dir_option,
    json_option,
    log_to_stderr,
    print_json,
    print_line,
    run,
    settings_of,
)
from navi.cli.printable import one_line
from navi.domain.errors import NotFound
from navi.domain.ids import LOCAL_OWNER
from navi.http.api.memories import MemoryList, memory_answer
from navi.settings import Settings

TEXT_CHARACTERS = 200  # of a memory on its line


@click.group(
    invoke_without_command=True,
    epilog="\b\nExamples:\n"
    "  navi memories                        all of them, newest first\n"
    '  navi memories search "tea"           what answers a question\n'
    '  navi memories add "I drink tea"      keep a fact\n'
    "  navi memories forget ID              its words in the log too",
)
@data_dir_option
@json_option
@click.pass_context
def memories(context: click.Context, data_dir: str | None, as_json: bool) -> None:
    """List what navi remembers about you, or look after it."""
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    context.obj = (settings, as_json)
    if context.invoked_subcommand is None:
        run(settings, _list(settings, query=None, as_json=as_json))


@memories.command()
@click.argument("query")
@click.pass_obj
def search(given: tuple[Settings, bool], query: str) -> None:
    """Search memories, best match first."""
    settings, as_json = given
    run(settings, _list(settings, query=query, as_json=as_json))


@memories.command()
@click.argument("text")
@click.pass_obj
def add(given: tuple[Settings, bool], text: str) -> None:
    """Add a memory."""
    settings, as_json = given
    run(settings, _change(settings, None, text, as_json=as_json))


@memories.command()
@click.argument("memory_id", metavar="ID")
@click.argument("text")
@click.pass_obj
def edit(given: tuple[Settings, bool], memory_id: str, text: str) -> None:
    """Change the text of a memory; the old text is erased."""
    settings, as_json = given
    run(settings, _change(settings, memory_id, text, as_json=as_json))


@memories.command()
@click.argument("memory_id", metavar="ID")
@click.pass_obj
def forget(given: tuple[Settings, bool], memory_id: str) -> None:
    """Forget a memory, and erase its text from the log."""
    settings, _ = given
    run(settings, _forget(settings, memory_id))


async def _list(settings: Settings, *, query: str | None, as_json: bool) -> int:
    async with _opened(settings) as manage:
        found = await manage.list(LOCAL_OWNER, query=query)
    if as_json:
        print_json(MemoryList(memories=tuple(memory_answer(memory) for memory in found)))
    elif not found:
        click.echo("Nothing is remembered yet.")
    for memory in () if as_json else found:
        print_line(f"{memory.id}  {one_line(memory.text, width=TEXT_CHARACTERS)}".encode())
    return HOLDS


async def _change(settings: Settings, memory_id: str | None, text: str, *, as_json: bool) -> int:
    async with _opened(settings) as manage:
        try:
            if memory_id is None:
                memory = await manage.add(LOCAL_OWNER, text)
            else:
                memory = await manage.change(LOCAL_OWNER, memory_id, text)
        except NotFound as error:
            raise CommandFailed(str(error)) from error
    if as_json:
        print_json(memory_answer(memory))
    else:
        print_line(memory.id.encode())
    return HOLDS


async def _forget(settings: Settings, memory_id: str) -> int:
    async with _opened(settings) as manage:
        try:
            await manage.forget(LOCAL_OWNER, memory_id)
        except NotFound as error:
            raise CommandFailed(str(error)) from error
    return HOLDS


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncGenerator[ManageMemories, None]:
    async with attached_services(settings) as services:
        yield services.memories
