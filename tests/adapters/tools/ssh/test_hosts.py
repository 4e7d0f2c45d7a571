"""The file that names hosts: what of it is used, and what is said of the rest."""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from navi.adapters.tools.ssh.delays import SshDelays
from navi.adapters.tools.ssh.hosts import HostProblem, HostsFile, SshHost, parse_hosts
from navi.adapters.tools.ssh.source import NOT_INSTALLED, SshTools
from navi.ports.tools import UnavailableTool
from tests.support.ssh_server import make_key, write_hosts

FILE = Path("/srv/navi/ssh.json")
WEB = {"host": "10.0.0.5", "user": "deploy", "key_file": "keys/web", "known_hosts": "known_hosts"}


def parsed(**hosts: Any) -> HostsFile:
    """What a file with these entries says."""
    return parse_hosts(json.dumps(hosts).encode(), file=FILE)


def test_paths_are_relative_to_the_file_and_the_port_is_that_of_ssh() -> None:
    found = parsed(web=WEB)

    assert found == HostsFile(
        hosts=(
            SshHost(
                name="web",
                host="10.0.0.5",
                port=22,
                user="deploy",
                key_file=Path("/srv/navi/keys/web"),
                known_hosts=Path("/srv/navi/known_hosts"),
            ),
        )
    )


def test_an_address_with_colons_stands_in_brackets() -> None:
    [host] = parsed(web={**WEB, "host": "fd00::7", "port": 2222}).hosts

    assert host.address == "deploy@[fd00::7]:2222"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"host": None}, "ssh.json: host: expected str, got null"),
        ({"host": "a b"}, "ssh.json: host: expected str matching regex"),
        ({"port": 0}, "ssh.json: port: expected int >= 1"),
        ({"port": "22"}, "ssh.json: port: expected int, got str"),
        ({"user": "two words"}, "ssh.json: user: expected str matching regex"),
        ({"key_file": ""}, "ssh.json: key_file: expected str of length >= 1"),
        ({"password": "tea"}, "ssh.json: password: is not known"),
        (
            {"key_file": "~nobody-of-that-name/key"},
            "ssh.json: key_file: is in the home of somebody unknown",
        ),
    ],
)
def test_an_entry_with_a_fault_is_left_out_and_the_others_serve(
    change: dict[str, Any], reason: str
) -> None:
    found = parsed(bad={**WEB, **change}, web=WEB)

    assert [host.name for host in found.hosts] == ["web"]
    [problem] = found.problems
    assert problem.host == "bad"
    assert problem.reason.startswith(reason)


@pytest.mark.parametrize("key", ["host", "user", "key_file", "known_hosts"])
def test_what_an_entry_lacks_is_named(key: str) -> None:
    entry = {name: value for name, value in WEB.items() if name != key}

    found = parsed(web=entry)

    assert found.problems == (HostProblem(host="web", reason=f"ssh.json: {key}: is missing"),)


@pytest.mark.parametrize("name", ["", "two words", "-o", "x" * 65, "../web"])
def test_a_name_that_is_none_is_left_out(name: str) -> None:
    found = parsed(**{name: WEB})

    assert (found.hosts, [problem.host for problem in found.problems]) == ((), [name])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"{", "ssh.json: is not JSON: Input data was truncated"),
        (b"\xff", "ssh.json: is not JSON: "),
        (b"[]", "ssh.json: is not an object of hosts by name"),
        (b"{}", "ssh.json names no host"),
        (b" " * 2_000_000, "ssh.json: is larger than 1,048,576 bytes"),
    ],
)
def test_what_is_wrong_with_the_file_as_a_whole_is_said(data: bytes, reason: str) -> None:
    found = parse_hosts(data, file=FILE)

    [problem] = found.problems
    assert (found.hosts, problem.host) == ((), None)
    assert problem.reason.startswith(reason)


def test_hosts_beyond_sixty_four_are_left_out() -> None:
    found = parsed(**{f"host{number:02}": WEB for number in range(65)})

    assert len(found.hosts) == 64
    assert found.problems == (HostProblem(reason="ssh.json names more than 64 hosts"),)


# --- whether the tool is offered ---


async def nobody_deletes(_: object) -> None:
    """No session is ever deleted."""
    await asyncio.Event().wait()


def tools_of(file: Path) -> SshTools:
    """The tools of a file, looked at often."""
    return SshTools(file, deleted=nobody_deletes, delays=SshDelays(look=0.01))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with a key and known hosts."""
    make_key(tmp_path / "key")
    public = (tmp_path / "key.pub").read_text()
    (tmp_path / "known_hosts").write_text(f"10.0.0.5 {public}")
    return tmp_path


def entry(**changes: Any) -> dict[str, Any]:
    """An entry whose files are there."""
    return {**WEB, "key_file": "key", **changes}


async def test_without_the_file_there_is_no_tool_and_nothing_is_missing(tmp_path: Path) -> None:
    async with tools_of(tmp_path / "ssh.json") as tools:
        found = tools.tools(), tools.unavailable()

    assert found == ((), [])


async def test_the_model_is_told_the_names_of_hosts_that_can_be_used(directory: Path) -> None:
    file = write_hosts(directory / "ssh.json", web=entry(), db=entry(key_file="gone"), mail=entry())

    async with tools_of(file) as tools:
        [tool] = tools.tools()
        missing = tools.unavailable()

    properties = tool.description.parameters["properties"]
    assert properties["host"] == {"type": "string", "enum": ["mail", "web"]}
    assert tool.description.safe_to_repeat is False
    reason = f"key_file: {directory}/gone: No such file or directory"
    assert missing == [UnavailableTool(name="ssh db", reason=reason)]


def open_to_others(directory: Path) -> str:
    (directory / "key").chmod(0o640)
    return f"key_file: {directory}/key is open to others (mode 0640): chmod 600 {directory}/key"


def with_a_passphrase(directory: Path) -> str:
    key = asyncssh.generate_private_key("ssh-ed25519")
    (directory / "key").write_bytes(key.export_private_key("pkcs8-pem", "tea"))
    return (
        f"key_file: {directory}/key has a passphrase, which nobody is asked for here: "
        "make navi a key without one"
    )


def no_key(directory: Path) -> str:
    (directory / "key").write_text("SECRET")
    return f"key_file: {directory}/key is no private key"


def the_public_one(directory: Path) -> str:
    (directory / "key").write_text((directory / "key.pub").read_text())
    return f"key_file: {directory}/key is no private key"


def a_directory(directory: Path) -> str:
    (directory / "known_hosts").unlink()
    (directory / "known_hosts").mkdir()
    return f"known_hosts: {directory}/known_hosts is no file"


def no_known_hosts(directory: Path) -> str:
    # The two mixed up: nothing of the key is said.
    (directory / "known_hosts").write_text((directory / "key").read_text())
    return f"known_hosts: {directory}/known_hosts, line 2: is no key of a host"


def damaged(directory: Path) -> str:
    lines = (directory / "key").read_text().splitlines()
    (directory / "key").write_text("\n".join([lines[0], *lines[2:]]))
    return f"key_file: {directory}/key is no private key"


@pytest.mark.parametrize(
    "spoil",
    [
        open_to_others,
        with_a_passphrase,
        no_key,
        the_public_one,
        a_directory,
        no_known_hosts,
        damaged,
    ],
)
async def test_where_no_host_can_be_used_the_tool_is_missing_and_the_host_is_named(
    spoil: Callable[[Path], str], directory: Path
) -> None:
    file = write_hosts(directory / "ssh.json", web=entry())
    reason = spoil(directory)

    async with tools_of(file) as tools:
        found = tools.tools(), tools.unavailable()

    assert found == (
        (),
        [
            UnavailableTool(name="ssh", reason="none of the hosts of ssh.json can be used"),
            UnavailableTool(name="ssh web", reason=reason),
        ],
    )


async def test_without_asyncssh_the_tool_is_missing(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_hosts(directory / "ssh.json", web=entry())
    monkeypatch.setitem(sys.modules, "asyncssh", None)

    async with tools_of(file) as tools:
        found = tools.tools(), tools.unavailable()

    assert found == ((), [UnavailableTool(name="ssh", reason=NOT_INSTALLED)])


async def test_edits_are_followed_also_those_of_a_key(directory: Path) -> None:
    file = directory / "ssh.json"

    async with tools_of(file) as tools:
        write_hosts(file, web=entry())
        while not tools.tools():  # noqa: ASYNC110 - a file tells nobody
            await asyncio.sleep(0.01)
        open_to_others(directory)
        while tools.tools():  # noqa: ASYNC110 - likewise
            await asyncio.sleep(0.01)
        (directory / "key").chmod(0o600)
        while not tools.tools():  # noqa: ASYNC110 - likewise
            await asyncio.sleep(0.01)
        file.unlink()
        while tools.tools() or tools.unavailable():  # noqa: ASYNC110 - likewise
            await asyncio.sleep(0.01)
