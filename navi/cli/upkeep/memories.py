"""``navi memories``: list, search, add, edit, forget."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Protocol

import click
from msgspec import Struct

from navi.application.memory.manage_memories import ManageMemories
from navi.bootstrap.log_ports import attached_services, command_services
from navi.bootstrap.store import attached_store
from navi.cli.shared.command import (
    HOLDS,
    CommandFailed,
    WrongUsage,
    data_dir_option,
    json_option,
    log_to_stderr,
    print_json,
    print_line,
    run,
    settings_of,
    words_type,
)
from navi.cli.shared.elsewhere import elsewhere
from navi.cli.shared.owners import note_listing, owner_named
from navi.cli.shared.printable import one_line
from navi.cli.shared.remote import RemoteNavi
from navi.domain.vocabulary.ids import LOCAL_OWNER, is_uuid
from navi.http.api.memories import MemoryAnswer, MemoryList, MemoryText, memory_answer
from navi.settings import Settings

TEXT_CHARACTERS = 200  # of a memory on its line


class _Given(Struct, frozen=True):
    """What stands before the subcommand."""

    settings: Settings
    owner: str | None
    as_json: bool


@click.group(
    invoke_without_command=True,
    epilog="\b\nExamples:\n"
    "  navi memories                        all of them, newest first\n"
    '  navi memories search "tea"           what answers a question\n'
    "  navi memories --owner bob            somebody else's, on the server's machine\n"
    '  navi memories add "I drink tea"      keep a fact\n'
    "  navi memories forget ID              its words in the log too",
)
@click.option(
    "--owner",
    metavar="USER",
    help="List or search this user's, else those of `local`; not of a navi elsewhere.",
)
@data_dir_option
@json_option
@click.pass_context
def memories(
    context: click.Context, owner: str | None, data_dir: str | None, as_json: bool
) -> None:
    """List what navi remembers about you, or look after it."""
    settings = settings_of(data_dir=data_dir)
    log_to_stderr(settings, level="warning")
    if owner is not None and settings.navi_url is not None:
        raise WrongUsage("--owner: only on the machine where navi runs")
    if owner is not None and context.invoked_subcommand not in (None, "search"):
        raise WrongUsage("--owner: what others keep is read here, and not changed")
    context.obj = given = _Given(settings, owner, as_json)
    if context.invoked_subcommand is None:
        run(settings, _list(given, query=None))


@memories.command()
@click.argument("query", type=words_type)
@click.pass_obj
def search(given: _Given, query: str) -> None:
    """Search memories, best match first."""
    run(given.settings, _list(given, query=query))


@memories.command()
@click.argument("text", type=words_type)
@click.pass_obj
def add(given: _Given, text: str) -> None:
    """Add a memory."""
    run(given.settings, _change(given.settings, None, text, as_json=given.as_json))


@memories.command()
@click.argument("memory_id", metavar="ID")
@click.argument("text", type=words_type)
@click.pass_obj
def edit(given: _Given, memory_id: str, text: str) -> None:
    """Change the text of a memory; the old text is erased."""
    run(given.settings, _change(given.settings, memory_id, text, as_json=given.as_json))


@memories.command()
@click.argument("memory_id", metavar="ID")
@click.pass_obj
def forget(given: _Given, memory_id: str) -> None:
    """Forget a memory, and erase its text from the log."""
    run(given.settings, _forget(given.settings, memory_id))


async def _list(given: _Given, *, query: str | None) -> int:
    settings, as_json = given.settings, given.as_json
    if settings.navi_url is not None:
        async with elsewhere(settings) as navi:
            found = await _Elsewhere(navi).list(query)
    else:
        found = await _list_here(settings, given.owner or LOCAL_OWNER, query)
    if as_json:
        print_json(MemoryList(memories=found))
    elif not found:
        click.echo("Nothing is remembered yet.")
    for memory in () if as_json else found:
        print_line(f"{memory.id}  {one_line(memory.text, width=TEXT_CHARACTERS)}".encode())
    return HOLDS


async def _list_here(settings: Settings, user: str, query: str | None) -> tuple[MemoryAnswer, ...]:
    async with attached_store(settings) as store:
        owner = await owner_named(store, user)
        if owner is None:
            raise WrongUsage("--owner: is one user")
        await note_listing(settings, store, owner)
        kept = command_services(settings, store).memories
        return tuple(map(memory_answer, await kept.list(owner, query=query)))


async def _change(settings: Settings, memory_id: str | None, text: str, *, as_json: bool) -> int:
    async with _opened(settings) as kept:
        memory = await (kept.add(text) if memory_id is None else kept.change(memory_id, text))
    if as_json:
        print_json(memory)
    else:
        print_line(memory.id.encode())
    return HOLDS


async def _forget(settings: Settings, memory_id: str) -> int:
    async with _opened(settings) as kept:
        await kept.forget(memory_id)
    return HOLDS


class _Memories(Protocol):
    """One's own memories, here or elsewhere."""

    async def add(self, text: str) -> MemoryAnswer: ...

    async def change(self, memory_id: str, text: str) -> MemoryAnswer: ...

    async def forget(self, memory_id: str) -> None: ...


class _Here:
    def __init__(self, manage: ManageMemories) -> None:
        self._manage = manage

    async def add(self, text: str) -> MemoryAnswer:
        return memory_answer(await self._manage.add(LOCAL_OWNER, text))

    async def change(self, memory_id: str, text: str) -> MemoryAnswer:
        return memory_answer(await self._manage.change(LOCAL_OWNER, memory_id, text))

    async def forget(self, memory_id: str) -> None:
        await self._manage.forget(LOCAL_OWNER, memory_id)


class _Elsewhere:
    def __init__(self, navi: RemoteNavi) -> None:
        self._navi = navi

    async def list(self, query: str | None) -> tuple[MemoryAnswer, ...]:
        wanted = {} if query is None else {"query": query}
        return (await self._navi.ask("GET", "/memories", MemoryList, query=wanted)).memories

    async def add(self, text: str) -> MemoryAnswer:
        return await self._navi.ask("POST", "/memories", MemoryAnswer, MemoryText(text=text))

    async def change(self, memory_id: str, text: str) -> MemoryAnswer:
        return await self._navi.ask("PATCH", _path(memory_id), MemoryAnswer, MemoryText(text=text))

    async def forget(self, memory_id: str) -> None:
        await self._navi.ask("DELETE", _path(memory_id), object)


def _path(memory_id: str) -> str:
    if not is_uuid(memory_id):  # it goes into an address
        raise CommandFailed(f"no memory {memory_id}")
    return f"/memories/{memory_id}"


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncGenerator[_Memories, None]:
    if settings.navi_url is not None:
        async with elsewhere(settings) as navi:
            yield _Elsewhere(navi)
        return
    async with attached_services(settings) as services:
        yield _Here(services.memories)
