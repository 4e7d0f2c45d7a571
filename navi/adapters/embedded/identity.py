"""Find an unprivileged user to run Postgres as, since it refuses to run as root."""

import asyncio
import os
import sys
from pathlib import Path

from navi.adapters.embedded.child import ENVIRONMENT, LAUNCHER, Identity
from navi.adapters.embedded.errors import CannotChangeUser
from navi.adapters.embedded.launch import NOBODY


async def unprivileged_identity(home: Path) -> Identity:
    """An identity that is not root: the same one, a user namespace, or the user nobody.

    Args:
        home: the server's directory; whoever owns its files already has to go on owning them.

    Raises:
        CannotChangeUser: navi is root and no way out is open.
    """
    if os.geteuid() != 0:
        return Identity.SAME
    if sys.platform != "linux":
        raise CannotChangeUser("that is possible on Linux only")
    owner = await asyncio.to_thread(_owner, home)
    if owner not in (None, 0, NOBODY):
        raise CannotChangeUser(f"{home} belongs to user {owner}, as whom navi was run before")
    # A namespace first: files stay root's. Docker's default profile forbids it.
    candidates = (Identity.NAMESPACE, Identity.NOBODY)
    refusals: list[str] = []
    for identity in candidates if owner != NOBODY else (Identity.NOBODY,):
        refusal = await _refusal(identity)
        if refusal is None:
            return identity
        refusals.append(refusal)
    raise CannotChangeUser("; ".join(refusals))


def hand_over(directory: Path, identity: Identity) -> None:
    """Make a directory and all in it the property of the identity."""
    if identity is not Identity.NOBODY:
        return
    for path in [directory, *directory.rglob("*")]:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


def _owner(home: Path) -> int | None:
    try:
        return home.stat().st_uid
    except FileNotFoundError:
        return None


async def _refusal(identity: Identity) -> str | None:
    """What stands against running as this identity, or None; asks the kernel by trying."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", str(LAUNCHER)),
        *(str(os.getpid()), "15", identity.value, "/bin/sh", "-c", ":"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=ENVIRONMENT,
    )
    _, complaint = await process.communicate()
    return None if process.returncode == 0 else complaint.decode(errors="replace").strip()
