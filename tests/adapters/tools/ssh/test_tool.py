"""The tool ``ssh`` on a real server: what is run, shown and kept, and what is left of it there."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from msgspec.structs import replace
from structlog.testing import capture_logs

from navi.adapters.tools.ssh.delays import SshDelays
from navi.adapters.tools.ssh.source import SshTools
from navi.domain.agent.approvals import Ask
from navi.domain.vocabulary.ids import LOCAL_OWNER, SessionId
from navi.ports.tools import Tool, ToolResult
from tests.support.sandboxed import Marked
from tests.support.ssh_server import SshServer, make_key, ssh_server, write_hosts
from tests.support.tool_context import SESSION, context_in

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

OTHER = SessionId("0199c0de-0000-7000-8000-000000000002")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[SshServer, None]:
    """A server that the tests leave as it was."""
    async with ssh_server(tmp_path_factory.mktemp("server")) as running:
        yield running


class Deletions:
    """Tells of the deletion of sessions."""

    def __init__(self) -> None:
        self._told: dict[SessionId, asyncio.Event] = {}

    def of(self, session_id: SessionId) -> asyncio.Event:
        return self._told.setdefault(session_id, asyncio.Event())

    async def __call__(self, session_id: SessionId) -> object:
        return await self.of(session_id).wait()


SLOW_MACHINE = SshDelays(connect=60, ending=60)  # however busy the machine is


class Hosts:
    """The tool on some hosts, as a session calls it."""

    def __init__(self, source: SshTools, workspace: Path, deletions: Deletions) -> None:
        self.source = source
        self.workspace = workspace
        self.deletions = deletions

    @property
    def tool(self) -> Any:
        """The tool as it is now."""
        [tool] = self.source.tools()
        return tool

    async def run(
        self,
        command: str,
        *,
        host: str = "web",
        timeout: int = 60,  # noqa: ASYNC109 - the tool's own
        session: SessionId = SESSION,
        stop: asyncio.Event | None = None,
        show: Callable[[str], None] = lambda _: None,
    ) -> ToolResult:
        """Call it."""
        tool: Tool = self.tool
        context = replace(context_in(self.workspace, stop=stop, show=show), session_id=session)
        return await tool.run({"host": host, "command": command, "timeout": timeout}, context)


@asynccontextmanager
async def hosts_of(
    directory: Path, delays: SshDelays | None = None, **entries: dict[str, Any]
) -> AsyncGenerator[Hosts, None]:
    """The tool on the hosts of these entries."""
    deletions = Deletions()
    file = write_hosts(directory / "ssh.json", **entries)
    async with SshTools(file, deleted=deletions, delays=delays or SLOW_MACHINE) as source:
        yield Hosts(source, directory, deletions)


@pytest_asyncio.fixture(loop_scope="module")
async def hosts(server: SshServer, tmp_path: Path) -> AsyncGenerator[Hosts, None]:
    """The tool on the server, with connections of its own."""
    async with hosts_of(tmp_path, web=server.entry(), db=server.entry()) as hosts:
        yield hosts


# --- what is run, and what the model reads ---


async def test_the_model_reads_the_output_and_the_exit_status(hosts: Hosts) -> None:
    result = await hosts.run("echo $((2 + 2)); echo err >&2")

    assert result == ToolResult(outcome="ok", output="4\nerr\n[exit status 0]")


async def test_another_exit_status_is_an_error(hosts: Hosts) -> None:
    result = await hosts.run("echo -n no; exit 3")

    assert result == ToolResult(outcome="error", output="no\n[exit status 3]")


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("""echo 'a"b' "c'd" $'e\\tf' \\\\ \\$x""", "a\"b c'd e\tf \\ $x\n"),
        ("if [[ a == a ]]\nthen echo 'two\nlines'\nfi # end", "two\nlines\n"),
        ("cat <<'END'\n$HOME `id`\nEND", "$HOME `id`\n"),
        ("printf 'a\\0b\\xff\\xc3'; printf '\\xa4'", "a\ufffdb\ufffdä\n"),
        ("echo ä; exit 0; echo never", "ä\n"),
    ],
)
async def test_a_command_is_run_as_it_is_written_by_the_users_own_shell(
    command: str, output: str, hosts: Hosts
) -> None:
    result = await hosts.run(command)

    assert result == ToolResult(outcome="ok", output=f"{output}[exit status 0]")


async def test_nothing_is_asked_of_a_terminal(hosts: Hosts) -> None:
    result = await hosts.run('read -r word; echo "[$word]"; cat </dev/tty || echo none')

    assert result.outcome == "ok"
    assert result.output.startswith("[]\n")
    assert result.output.endswith("none\n[exit status 0]")


async def test_output_is_shown_as_it_comes(hosts: Hosts) -> None:
    stop, shown = asyncio.Event(), list[str]()

    def show(text: str) -> None:
        shown.append(text)
        stop.set()

    result = await hosts.run("echo begun; sleep 600", stop=stop, show=show)

    assert shown[0] == "begun\n"
    assert result.output.startswith("begun\n[stopped")


async def test_of_a_hundred_megabytes_the_model_reads_both_ends_and_the_beginning_is_kept(
    hosts: Hosts,
) -> None:
    result = await hosts.run("echo begin; head -c 100M /dev/zero | tr '\\0' x; echo; echo end")

    assert (result.outcome, result.truncated, len(result.output) < 26_000) == ("ok", True, True)
    assert result.output.startswith("begin\nxxx")
    assert result.output.endswith("x\nend\n[exit status 0]")
    kept = hosts.workspace / ".navi/outputs/call_00000000000a.txt"
    assert f"are in the file {kept.relative_to(hosts.workspace)}" in result.output
    assert kept.stat().st_size == 64 * 1024 * 1024


async def test_a_program_left_in_the_background_is_not_waited_for(hosts: Hosts) -> None:
    marked = Marked()

    result = await hosts.run(f"(exec -a {marked.name} sleep 600) & echo left")
    left = await marked.count()
    await hosts.run(f"pkill -f '[m]{marked.name[1:]}'")

    assert (result, left) == (ToolResult(outcome="ok", output="left\n[exit status 0]"), 1)
    await marked.gone()


# --- what is left of it on the host ---


async def test_a_time_out_ends_the_command_and_all_that_it_started(hosts: Hosts) -> None:
    marked = Marked()

    result = await hosts.run(marked.sleeper(), timeout=3)

    assert result.outcome == "error"
    assert result.output.endswith("[ended after 3 s: timeout allows up to 900]")
    assert await marked.count() == 0


async def test_a_stop_ends_the_command_and_all_that_it_started(hosts: Hosts) -> None:
    marked, stop, ready = Marked(), asyncio.Event(), asyncio.Event()
    call = asyncio.create_task(hosts.run(marked.sleeper(), stop=stop, show=lambda _: ready.set()))
    await ready.wait()
    running = await marked.count()

    stop.set()
    result = await call

    assert running >= 2
    assert result.outcome in ("error", "unknown")  # by whether the host was quick enough
    assert result.output.startswith("ready\n[stopped")
    await marked.gone()


async def test_a_call_that_is_abandoned_ends_the_command(hosts: Hosts) -> None:
    marked, ready = Marked(), asyncio.Event()
    call = asyncio.create_task(hosts.run(marked.sleeper(), show=lambda _: ready.set()))
    await ready.wait()

    call.cancel()

    await marked.gone()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_command_that_is_stopped_as_it_starts_does_not_start_afterwards(
    server: SshServer, tmp_path: Path
) -> None:
    marked, stop = Marked(), asyncio.Event()
    stop.set()

    async with hosts_of(tmp_path, web=server.entry()) as hosts:
        await hosts.run("true")
        result = await hosts.run(f"exec -a {marked.name} sleep 600", stop=stop)

    assert result.outcome in ("error", "unknown")
    assert await marked.count() == 0


async def test_what_is_still_being_ended_is_ended_before_navi_ends(
    server: SshServer, tmp_path: Path
) -> None:
    marked, ready = Marked(), asyncio.Event()

    async with hosts_of(tmp_path, web=server.entry()) as hosts:
        call = asyncio.create_task(hosts.run(marked.sleeper(), show=lambda _: ready.set()))
        await ready.wait()
        call.cancel()
        await asyncio.wait({call})

    assert await marked.count() == 0


# --- who is met, and by whom ---


async def test_a_changed_host_key_is_refused(server: SshServer, tmp_path: Path) -> None:
    make_key(tmp_path / "other")
    known = tmp_path / "known"
    known.write_text(f"[127.0.0.1]:{server.port} {(tmp_path / 'other.pub').read_text()}")
    marker = tmp_path / "ran"

    async with hosts_of(tmp_path, web=server.entry(known_hosts="known")) as hosts:
        result = await hosts.run(f"touch {marker}")

    assert result.outcome == "error"
    assert result.output.startswith(
        "[the command was not run: no connection to web: its host key is not the one that its "
        "known_hosts has for it: it has changed, or somebody else answers there. "
        "It showed ssh-ed25519 SHA256:"
    )
    assert not marker.exists()


async def test_an_unknown_host_key_is_refused_and_stays_unknown(
    server: SshServer, tmp_path: Path
) -> None:
    known = tmp_path / "known"
    known.write_text("")

    async with hosts_of(tmp_path, web=server.entry(known_hosts="known")) as hosts:
        first = await hosts.run("true")
        second = await hosts.run("true")

    assert "its known_hosts has no host key for it, so nobody knows who" in first.output
    assert (first, known.read_text()) == (second, "")


async def test_a_revoked_host_key_is_refused(server: SshServer, tmp_path: Path) -> None:
    known = tmp_path / "known"
    line = (server.directory / "known_hosts").read_text()
    known.write_text(f"{line}@revoked {line}")

    async with hosts_of(tmp_path, web=server.entry(known_hosts="known")) as hosts:
        result = await hosts.run("true")

    assert "Host key is revoked" in result.output


async def test_only_the_key_of_the_entry_is_shown(
    server: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, agent = tmp_path / "home", tmp_path / "agent"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh/id_ed25519").write_bytes((server.directory / "key").read_bytes())
    (home / ".ssh/id_ed25519").chmod(0o600)
    (home / ".ssh/config").write_text(f"Host *\n  ProxyCommand touch {tmp_path}/configured\n")
    make_key(tmp_path / "stranger")
    asked: list[object] = []

    async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.read())
        writer.close()

    listener = await asyncio.start_unix_server(ask, agent)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SSH_AUTH_SOCK", str(agent))

    async with listener, hosts_of(tmp_path, web=server.entry(key_file="stranger")) as hosts:
        result = await hosts.run("true")

    assert "it did not let its user in with its key_file" in result.output
    assert (asked, (tmp_path / "configured").exists()) == ([], False)


async def test_a_host_gets_nothing_but_the_command(
    hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_NAVI", "tea")
    monkeypatch.setenv("DISPLAY", ":0")

    result = await hosts.run(
        "env | grep -v -e ^_ -e ^PWD -e ^SHLVL -e ^OLDPWD | cut -d= -f1 | sort"
    )
    forwarded = await hosts.run('echo "[$FORWARDED]"')

    names = "FORWARDED\nNAVI_CALL\nPATH\nSHELL\nSSH_CONNECTION\n"
    assert result.output == f"{names}[exit status 0]"
    assert forwarded.output == "[]\n[exit status 0]"


# --- connections ---


AGAIN: dict[str, Any] = {}  # a call like the others


async def connections_of(hosts: Hosts, *runs: dict[str, Any]) -> list[str]:
    """The numbers of the connections that calls ran over, all at once."""
    results = await asyncio.gather(*(hosts.run("echo $SSH_CONNECTION", **run) for run in runs))
    return [result.output.partition("\n")[0] for result in results]


async def test_calls_of_a_session_share_a_connection(hosts: Hosts) -> None:
    first = await connections_of(hosts, AGAIN)
    second = await connections_of(hosts, AGAIN)

    assert first == second


async def test_a_dozen_calls_at_once_take_two_connections(hosts: Hosts) -> None:
    numbers = await connections_of(hosts, *[AGAIN] * 12)

    assert sorted(numbers.count(number) for number in set(numbers)) == [4, 8]


async def test_sessions_and_hosts_do_not_share_connections(hosts: Hosts) -> None:
    numbers = await connections_of(hosts, AGAIN, {"session": OTHER}, {"host": "db"})

    assert len(set(numbers)) == 3


async def test_a_server_that_gives_few_channels_gets_more_connections(tmp_path: Path) -> None:
    async with (
        ssh_server(tmp_path, sessions=2) as server,
        hosts_of(tmp_path, web=server.entry()) as hosts,
    ):
        numbers = await connections_of(hosts, *[AGAIN] * 6)

    assert all(number.isdigit() for number in numbers)
    assert len(set(numbers)) > 1


async def test_a_time_out_ends_a_command_also_where_its_connection_is_full(tmp_path: Path) -> None:
    marked = Marked()
    async with (
        ssh_server(tmp_path, sessions=1) as server,
        hosts_of(tmp_path, web=server.entry()) as hosts,
    ):
        result = await hosts.run(marked.sleeper(), timeout=3)

    assert result.output.endswith("[ended after 3 s: timeout allows up to 900]")
    assert await marked.count() == 0


async def test_more_calls_than_connections_take_are_refused(tmp_path: Path) -> None:
    async with (
        ssh_server(tmp_path, sessions=1) as server,
        hosts_of(tmp_path, web=server.entry()) as hosts,
    ):
        go_on = tmp_path / "go on"
        waits = f"while [ ! -e '{go_on}' ]; do sleep 0.05; done"
        calls = [asyncio.create_task(hosts.run(waits)) for _ in range(10)]
        # Who is refused waits for nothing.
        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        go_on.touch()
        results = await asyncio.gather(*calls)

    refused = [result.output for result in results if result.outcome == "error"]
    assert refused
    assert set(refused) == {
        "[the command was not run: 8 connections of this session are in use already; "
        "try again later]"
    }


async def test_an_idle_connection_is_closed_and_made_again(
    server: SshServer, tmp_path: Path
) -> None:
    before = await server.connections()

    async with hosts_of(tmp_path, SshDelays(idle=0.05), web=server.entry()) as hosts:
        [first] = await connections_of(hosts, AGAIN)
        await server.until_connections(before)
        [second] = await connections_of(hosts, AGAIN)

    assert first != second


async def test_a_connection_that_works_is_not_idle(server: SshServer, tmp_path: Path) -> None:
    async with hosts_of(tmp_path, SshDelays(idle=0.01), web=server.entry()) as hosts:
        result = await hosts.run("sleep 1; echo done")

    assert result.output == "done\n[exit status 0]"


async def test_a_deleted_session_keeps_no_connection(hosts: Hosts, server: SshServer) -> None:
    before = await server.connections()
    await connections_of(hosts, *[AGAIN] * 9, {"session": OTHER})
    open_ = await server.connections()

    hosts.deletions.of(SESSION).set()

    assert open_ == before + 3
    await server.until_connections(before + 1)


async def test_the_end_of_navi_closes_all(server: SshServer, tmp_path: Path) -> None:
    before = await server.connections()

    async with hosts_of(tmp_path, web=server.entry()) as hosts:
        await connections_of(hosts, AGAIN, {"session": OTHER})

    await server.until_connections(before)


# --- what goes wrong ---


async def test_a_server_that_dies_in_a_call_is_said_and_its_return_is_met(tmp_path: Path) -> None:
    begun = asyncio.Event()
    async with ssh_server(tmp_path) as server, hosts_of(tmp_path, web=server.entry()) as hosts:
        call = asyncio.create_task(hosts.run("echo begun; sleep 9", show=lambda _: begun.set()))
        await begun.wait()
        await server.kill()
        lost = await call
        gone = await hosts.run("true")
        await server.start()
        back = await hosts.run("echo back")
        await server.kill()
        await server.start()
        again = await hosts.run("echo again")  # its connection was lost unseen

    assert lost.outcome == "error"
    assert lost.output.startswith("begun\n[the connection was lost (")
    assert lost.output.endswith("): whether the command goes on is not known]")
    why = "no connection to web: Connection refused"
    assert gone.output == f"[the command was not run: {why}]"
    assert (back.output, again.output) == ("back\n[exit status 0]", "again\n[exit status 0]")


async def test_a_server_that_says_nothing_is_given_up(server: SshServer, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        entry = server.entry(port=silent.getsockname()[1])
        async with hosts_of(tmp_path, SshDelays(connect=0.2), web=entry) as hosts:
            result = await hosts.run("true")

    assert result.outcome == "error"
    assert result.output.endswith("it did not answer within 0.2 s]")


async def test_a_stop_does_not_wait_for_a_connection(server: SshServer, tmp_path: Path) -> None:
    stop = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stop.set()
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    async with silent:
        entry = server.entry(port=silent.sockets[0].getsockname()[1])
        async with hosts_of(tmp_path, SshDelays(connect=600), web=entry) as hosts:
            result = await hosts.run("true", timeout=600, stop=stop)

    assert result.outcome == "error"
    assert result.output.startswith("[the command was not run: ")


async def test_a_name_that_leads_nowhere_is_said(server: SshServer, tmp_path: Path) -> None:
    async with hosts_of(tmp_path, web=server.entry(host="nowhere.invalid")) as hosts:
        result = await hosts.run("true")

    assert result.outcome == "error"
    assert result.output.startswith("[the command was not run: no connection to web: ")


@pytest.mark.parametrize(
    "changed", [{"port": 1}, {"user": "eve"}, {"known_hosts": "none"}, {"host": "nowhere.invalid"}]
)
async def test_of_an_entry_the_model_is_told_the_name_and_the_log_the_rest(
    server: SshServer, tmp_path: Path, changed: dict[str, Any]
) -> None:
    (tmp_path / "none").write_text("")
    make_key(tmp_path / "stranger")
    entry = server.entry(key_file="stranger", **changed)
    address = f"{entry['user']}@{entry['host']}:{entry['port']}"

    with capture_logs() as logs:
        async with hosts_of(tmp_path, web=entry) as hosts:
            result = await hosts.run("true")

    assert result.outcome == "error"
    for kept_back in (entry["user"], entry["host"], f":{entry['port']}", str(tmp_path)):
        assert kept_back not in result.output.partition("It showed")[0]
    [logged] = [one for one in logs if one["event"] == "ssh_not_connected"]
    assert (logged["host"], logged["address"]) == ("web", address)
    assert logged["key_file"] == str(tmp_path / "stranger")


# --- before it is run ---


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"host": "mail", "command": "true"}, "there is no 'mail'; allowed: db, web"),
        ({"host": "web"}, "command"),
        ({"host": "web", "command": ""}, "command"),
        ({"host": "web", "command": "x" * 30_001}, "command"),
        ({"host": "web", "command": "a\0b"}, "holds characters that no shell takes"),
        ({"host": "web", "command": "true", "timeout": 901}, "timeout"),
        ({"host": "web", "command": "true", "port": 22}, "port"),
    ],
)
async def test_wrong_arguments_are_named(
    arguments: dict[str, Any], complaint: str, hosts: Hosts
) -> None:
    assert complaint in (hosts.tool.check(arguments) or "")


async def test_a_person_is_asked_and_shown_the_very_command_and_where_it_would_run(
    hosts: Hosts, server: SshServer
) -> None:
    arguments = {"host": "web", "command": "rm -rf /srv/old\nuptime"}

    asked = await hosts.tool.asks(arguments, LOCAL_OWNER)
    preview = await hosts.tool.preview(arguments, hosts.workspace)

    where = f"ada@127.0.0.1:{server.port}"
    assert asked == Ask(reason=f"It runs a command on web ({where}).", rule=f"ssh web {where}")
    assert preview == f"{where}, at most 120 s:\n\nrm -rf /srv/old\nuptime"
