"""Whether the sandbox of this machine holds: its attacks are tried, and all must be denied."""

import asyncio
import os
import secrets
import socket
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from navi.adapters.sandbox import attacks
from navi.adapters.sandbox.sandbox import (
    CodeEnded,
    CodeRun,
    Language,
    Sandbox,
    SandboxFault,
    SandboxLimits,
)

SECONDS = 60.0  # for the attacks from within; a busy machine takes a few
OVERRUN_SECONDS = 0.5  # what the call gets that is to be ended for its time
SMALL_MEMORY = 128 * 1024 * 1024
DAEMON = "navi-daemon"


class Denial(Struct, frozen=True, kw_only=True):
    """An attack and how it went.

    Attributes:
        held: it was denied.
        how: in the words of who denied it, or what got through.
    """

    attack: str
    held: bool
    how: str


async def try_attacks(sandbox: Sandbox) -> Sequence[Denial]:
    """Attack the sandbox, from within and by what calls leave behind.

    Raises:
        SandboxFault: no code runs in it at all.
    """
    async with _temporary() as directory:
        workspace = directory / "workspace"
        await asyncio.to_thread(workspace.mkdir)
        async with targets_in(directory) as targets:
            within = await _from_within(sandbox, workspace, targets)
        after = await asyncio.gather(
            _daemon(sandbox, workspace), _together(sandbox, workspace), _endless(sandbox, workspace)
        )
        return (*within, *after)


async def _from_within(
    sandbox: Sandbox, workspace: Path, targets: attacks.Targets
) -> tuple[Denial, ...]:
    source = await asyncio.to_thread(Path(attacks.__file__).read_text)
    code = f"{source}\n\ntry_all({targets!r})\n"
    ended, said = await _run(sandbox, workspace, "python", code, seconds=SECONDS)
    lines = (line for line in said.splitlines() if line.startswith('{"attack"'))
    denials = tuple(msgspec.json.decode(line, type=Denial) for line in lines)
    missing = set(attacks.ATTACKS) - {denial.attack for denial in denials}
    if missing:
        raise SandboxFault(f"{len(missing)} attacks were not tried: {_words(ended)}: {said[-300:]}")
    return denials


async def _daemon(sandbox: Sandbox, workspace: Path) -> Denial:
    """A process that leaves its session and outlives its parent must end with the call."""
    name = f"{DAEMON}-{secrets.token_hex(8)}"
    code = f"setsid -f bash -c 'exec -a {name} sleep 600' </dev/null >/dev/null 2>&1; sleep 0.1"
    await _run(sandbox, workspace, "bash", code, seconds=SECONDS)
    left = await asyncio.to_thread(_running, name)
    how = f"{left} processes are left" if left else "nothing is left of the call"
    return Denial(attack="outlive the call", held=left == 0, how=how)


async def _together(sandbox: Sandbox, workspace: Path) -> Denial:
    """Processes that each stay below the bound must not pass it together."""
    small = sandbox.within(SandboxLimits(memory=SMALL_MEMORY))  # so that little is really used
    code = (
        "import os, time\nfor _ in range(4): os.fork()\nheld = b'x' * (16 << 20)\ntime.sleep(600)\n"
    )
    ended, _ = await _run(small, workspace, "python", code, seconds=SECONDS)
    held = ended.ended_by == "memory"
    return Denial(attack="take too much memory together", held=held, how=_words(ended))


async def _endless(sandbox: Sandbox, workspace: Path) -> Denial:
    code = "trap '' TERM INT HUP; while :; do :; done"
    ended, _ = await _run(sandbox, workspace, "bash", code, seconds=OVERRUN_SECONDS)
    return Denial(attack="run on and on", held=ended.ended_by == "time", how=_words(ended))


async def _run(
    sandbox: Sandbox, workspace: Path, language: Language, code: str, *, seconds: float
) -> tuple[CodeEnded, str]:
    said = bytearray()

    async def take(output: bytes) -> None:
        said.extend(output[: 1024 * 1024 - len(said)])

    run = CodeRun(language=language, code=code, workspace=workspace, seconds=seconds)
    try:
        ended = await sandbox.run(run, stop=asyncio.Event(), output=take)
    except SandboxFault as fault:
        raise SandboxFault(f"{fault}: {said.decode(errors='replace').strip()[:500]}") from fault
    return ended, said.decode(errors="replace")


def _words(ended: CodeEnded) -> str:
    if ended.ended_by is not None:
        return f"it was ended for its {ended.ended_by}"
    return f"it exited with status {ended.status}"


def _running(name: str) -> int:
    count = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                count += name.encode() in (entry / "cmdline").read_bytes()
            except OSError:
                continue
    return count


@asynccontextmanager
async def _temporary() -> AsyncGenerator[Path, None]:
    directory = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="navi-sandbox-")
    try:
        yield Path(directory.name)
    finally:
        await asyncio.to_thread(directory.cleanup)


@asynccontextmanager
async def targets_in(directory: Path) -> AsyncGenerator[attacks.Targets, None]:
    """Things outside that are really there to be reached."""
    secret = secrets.token_hex(16)
    file = await asyncio.to_thread(_secret_file, directory, secret)
    abstract = f"navi-{secrets.token_hex(8)}"
    with ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        unix_path = directory / "socket"
        for address in (str(unix_path), f"\0{abstract}"):
            unix = stack.enter_context(socket.socket(socket.AF_UNIX))
            unix.bind(address)
            unix.listen()
        await asyncio.to_thread(unix_path.chmod, 0o777)
        udp.setblocking(False)
        loop = asyncio.get_running_loop()
        loop.add_reader(udp, _echo, udp)
        try:
            yield attacks.Targets(
                secret_file=file,
                secret=secret,
                pid=os.getpid(),
                tcp_port=tcp.getsockname()[1],
                udp_port=udp.getsockname()[1],
                unix_path=str(unix_path),
                abstract_name=abstract,
            )
        finally:
            loop.remove_reader(udp)


def _secret_file(directory: Path, secret: str) -> str:
    """A file that anybody may read who gets to it."""
    file = directory / "secret"
    file.write_text(secret)
    file.chmod(0o644)
    directory.chmod(0o755)
    return str(file)


def _echo(udp: socket.socket) -> None:
    data, sender = udp.recvfrom(64)
    udp.sendto(data, sender)
