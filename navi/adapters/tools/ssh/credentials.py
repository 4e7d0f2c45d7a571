"""The key that navi shows a host, and the keys that the host has to show: from the files of its entry."""

import os
import stat
from pathlib import Path

import asyncssh
from cryptography.exceptions import UnsupportedAlgorithm
from msgspec import Struct

from navi.adapters.tools.ssh.hosts import SshHost
from navi.domain.vocabulary.errors import BadInput

MAX_KEY_BYTES = 64 * 1024
MAX_KNOWN_HOSTS_BYTES = 4 * 1024 * 1024
# What a file that is something else, or damaged, brings the library to raise.
WRONG = (ValueError, ArithmeticError, UnsupportedAlgorithm)
NOT_FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Credentials(Struct, frozen=True, kw_only=True):
    """What a connection to a host is made with."""

    key: asyncssh.SSHKey
    known_hosts: asyncssh.SSHKnownHosts


def load_credentials(host: SshHost) -> Credentials:
    """Read the files of a host. It blocks: use it in a thread.

    Raises:
        BadInput: ``key_file`` or ``known_hosts`` cannot be used, and why; never what is in them.
    """
    key = _read("key_file", host.key_file, MAX_KEY_BYTES, private=True)
    known = _read("known_hosts", host.known_hosts, MAX_KNOWN_HOSTS_BYTES, private=False)
    return Credentials(
        key=_private_key(host.key_file, key), known_hosts=_known_hosts(host.known_hosts, known)
    )


# What the library says of a file it cannot read may hold a line of it, and that file may be the key.


def _private_key(path: Path, data: bytes) -> asyncssh.SSHKey:
    try:
        return asyncssh.import_private_key(data)
    except WRONG as error:
        if str(error).startswith("Passphrase"):
            why = "has a passphrase, which nobody is asked for here: make navi a key without one"
        else:
            why = "is no private key"
    raise BadInput("key_file", f"{path} {why}")


def _known_hosts(path: Path, data: bytes) -> asyncssh.SSHKnownHosts:
    text = data.decode(errors="replace")
    try:
        return asyncssh.import_known_hosts(text)
    except WRONG:
        pass
    for number, line in enumerate(text.splitlines(), 1):
        try:
            asyncssh.import_known_hosts(line)
        except WRONG:
            raise BadInput("known_hosts", f"{path}, line {number}: is no key of a host") from None
    raise BadInput("known_hosts", f"{path} is no list of known hosts")


def _read(field: str, path: Path, limit: int, *, private: bool) -> bytes:
    try:
        # Not waited for, should somebody name a pipe.
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            _check(field, path, os.fstat(opened), private=private)
            with open(opened, "rb", closefd=False) as file:
                data = file.read(limit + 1)
        finally:
            os.close(opened)
    except OSError as error:
        raise BadInput(field, f"{path}: {error.strerror}") from error
    if len(data) > limit:
        raise BadInput(field, f"{path} is larger than {limit:,} bytes")
    return data


def _check(field: str, path: Path, status: os.stat_result, *, private: bool) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise BadInput(field, f"{path} is no file")
    # The rule of ssh itself: a file of somebody else may well be shared, such as one of root's.
    if private and status.st_uid == os.getuid() and status.st_mode & NOT_FOR_OTHERS:
        mode = stat.S_IMODE(status.st_mode)
        raise BadInput(field, f"{path} is open to others (mode {mode:04o}): chmod 600 {path}")
