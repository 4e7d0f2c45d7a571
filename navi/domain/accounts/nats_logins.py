"""What a login to NATS may do that reads one user's events, and how nats-server is told.

Every login is a NATS account of its own. Within one account whoever pulls from a consumer chooses the subject
that is answered to, also one of navi's; and would hear what is answered to others.
"""

import base64
import binascii
from collections.abc import Sequence

from msgspec import Struct

from navi.domain.log.subjects import owner_subjects, stream_name
from navi.domain.vocabulary.ids import Owner

DURABLE_PREFIX = "reader-"
SERVER_ACCOUNT = "NAVI"  # of whoever publishes
DIRECT_API = "$JS.API"

_USER_PREFIX, _SEED_PREFIX = 20 << 3, 18 << 3  # `U` and `S` in base32


class NatsLogin(Struct, frozen=True, kw_only=True):
    """Somebody who reads the events of an owner; ``nkey`` is the public key they sign in with."""

    id: str
    owner: Owner
    nkey: str

    @property
    def durable(self) -> str:
        """The consumer that they pull from, on the stream of every partition."""
        return f"{DURABLE_PREFIX}{self.id}"


def public_nkey(public_key: bytes) -> str:
    """A user's public Ed25519 key as NATS writes it, such as ``UDXU4RCS...``."""
    return _encode(bytes([_USER_PREFIX]) + public_key)


def nkey_seed(private_key: bytes) -> str:
    """A user's private Ed25519 key as NATS writes it, such as ``SUACS...``."""
    first = _SEED_PREFIX | _USER_PREFIX >> 5
    return _encode(bytes([first, (_USER_PREFIX & 31) << 3]) + private_key)


def readers_accounts(
    logins: Sequence[NatsLogin], *, partitions: int, api: str, server_entries: str
) -> str:
    """The ``accounts`` of a nats-server's configuration: the server's, and one a login.

    Args:
        api: what JetStream's requests begin with in the server's account.
        server_entries: what the server's account has besides.
    """
    parts = [f"  {SERVER_ACCOUNT} {{\n    exports: ["]
    parts += [f"      {line}" for line in _exports(logins, partitions=partitions, api=api)]
    parts += ["    ]", f"    {server_entries}", "  }"]
    parts += [_account(login, partitions=partitions, api=api) for login in logins]
    return "accounts {\n" + "\n".join(parts) + "\n}\n"


def _exports(logins: Sequence[NatsLogin], *, partitions: int, api: str) -> list[str]:
    readers: dict[str, list[str]] = {}
    for login in logins:
        for subject in owner_subjects(login.owner, partitions=partitions):
            readers.setdefault(subject, []).append(login.id)
    streams = [
        f'{{ stream: "{subject}", accounts: [{", ".join(map(_quoted, ids))}] }}'
        for subject, ids in readers.items()
    ]
    services = [
        f'{{ service: "{there}", response_type: {answers}, accounts: ["{login.id}"] }}'
        for login in logins
        for there, _, answers in _services(login, partitions=partitions, api=api)
    ]
    return streams + services


def _account(login: NatsLogin, *, partitions: int, api: str) -> str:
    subjects = owner_subjects(login.owner, partitions=partitions)
    services = _services(login, partitions=partitions, api=api)
    publish = ", ".join(_quoted(here) for _, here, _ in services)
    subscribe = ", ".join(map(_quoted, [*live_subjects(login.owner, partitions), "_INBOX.>"]))
    streams = [
        f'{{ stream: {{ account: {SERVER_ACCOUNT}, subject: "{subject}" }} }}'
        for subject in subjects
    ]
    imports = [
        f'{{ service: {{ account: {SERVER_ACCOUNT}, subject: "{there}" }}, to: "{here}" }}'
        for there, here, _ in services
    ]
    lines = "\n".join(f"      {line}" for line in [*streams, *imports])
    return (
        f'  "{login.id}" {{\n    users: [{{\n      nkey: {login.nkey}\n'
        f"      permissions: {{\n        publish: [{publish}]\n"
        f"        subscribe: [{subscribe}]\n      }}\n    }}]\n"
        f"    imports: [\n{lines}\n    ]\n  }}"
    )


def live_subjects(owner: Owner, partitions: int) -> tuple[str, ...]:
    """What a reader may subscribe to: each of the subjects, and for all partitions at once."""
    each = owner_subjects(owner, partitions=partitions)
    if partitions == 1:
        return each
    return (*(subject.replace(".0.", ".*.", 1) for subject in each[:2]), *each)


def _services(login: NatsLogin, *, partitions: int, api: str) -> list[tuple[str, str, str]]:
    """Requests of a reader: the subject in the server's account, in its own, and how many answers."""
    found: list[tuple[str, str, str]] = []
    for partition in range(partitions):
        consumer = f"{stream_name(partition)}.{login.durable}"
        for what, answers in (("MSG.NEXT", "stream"), ("INFO", "singleton")):
            request = f"CONSUMER.{what}.{consumer}"
            found.append((f"{api}.{request}", f"{DIRECT_API}.{request}", answers))
        acknowledged = f"$JS.ACK.{consumer}.>"
        found.append((acknowledged, acknowledged, "singleton"))
    return found


def _encode(raw: bytes) -> str:
    checked = raw + binascii.crc_hqx(raw, 0).to_bytes(2, "little")
    return base64.b32encode(checked).decode().rstrip("=")


def _quoted(text: str) -> str:
    return f'"{text}"'
