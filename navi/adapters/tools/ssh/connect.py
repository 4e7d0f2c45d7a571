"""Connect to a host: by the key of its entry alone, and only where it shows a host key that is known."""

import asyncio
import os
import socket

import asyncssh
import structlog

from navi.adapters.tools.ssh.credentials import Credentials, load_credentials
from navi.adapters.tools.ssh.faults import SshFault
from navi.adapters.tools.ssh.hosts import SshHost
from navi.domain.vocabulary.errors import BadInput

KEEPALIVE_SECONDS = 15  # without an answer to three of these a connection is lost
DEFAULT_PORT = 22  # is not written into a list of known hosts
MOST_REASON = 300  # characters of what a server says

log = structlog.get_logger()


async def connect(host: SshHost, *, seconds: float) -> asyncssh.SSHClientConnection:
    """A connection, logged in.

    Args:
        seconds: for all of it, from the name to the log-in.

    Raises:
        SshFault: there is none, and why; of the entry only the name is said, the rest is logged.
    """
    try:
        given = await asyncio.to_thread(load_credentials, host)
    except BadInput as bad:
        log.warning("ssh_not_connected", host=host.name, reason=str(bad))
        raise SshFault(f"no connection to {host.name}: its {bad.field} cannot be used") from bad
    server = _Server(given)
    try:
        # What the user's own ssh would use stays out of it: no configuration, agent, default keys,
        # proxy, Kerberos or X.509; nothing of the environment is sent, nothing is forwarded.
        return await asyncssh.connect(
            host.host,
            host.port,
            username=host.user,
            config=None,
            client_factory=lambda: server,
            known_hosts=given.known_hosts,
            client_keys=[given.key],
            preferred_auth="publickey",
            public_key_auth=True,
            password_auth=False,
            kbdint_auth=False,
            host_based_auth=False,
            gss_host=None,
            gss_auth=False,
            gss_kex=False,
            agent_path=None,
            agent_forwarding=False,
            pkcs11_provider=None,
            x11_forwarding=False,
            x509_trusted_certs=None,
            x509_trusted_cert_paths=[],
            tunnel=None,
            proxy_command=None,
            canonicalize_hostname=False,
            env=None,
            send_env=None,
            request_pty=False,
            connect_timeout=seconds,
            login_timeout=seconds,
            keepalive_interval=KEEPALIVE_SECONDS,
        )
    except (OSError, ValueError, asyncssh.Error) as error:
        why = server.refused or _in_words(error, seconds)
        log.warning(
            "ssh_not_connected",
            host=host.name,
            address=host.address,
            key_file=str(host.key_file),
            known_hosts=str(host.known_hosts),
            reason=why,
            error=str(error)[:MOST_REASON],
        )
        raise SshFault(f"no connection to {host.name}: {why}") from error


class _Server(asyncssh.SSHClient):
    """The server as it is met: says why its host key was refused."""

    def __init__(self, given: Credentials) -> None:
        self.refused: str | None = None
        self._known = given.known_hosts

    def validate_host_public_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey
    ) -> bool:
        """Asked of a key that is not known: it never becomes so by being seen."""
        shown = f"{key.get_algorithm()} {key.get_fingerprint()}"
        known = self._known.match(host, addr, None if port == DEFAULT_PORT else port)
        if known[0]:
            self.refused = (
                "its host key is not the one that its known_hosts has for it: it has changed, or "
                f"somebody else answers there. It showed {shown}"
            )
        else:
            self.refused = (
                "its known_hosts has no host key for it, so nobody knows who answers there. "
                f"It showed {shown}"
            )
        return False


def _in_words(error: Exception, seconds: float) -> str:
    match error:
        case TimeoutError():
            return f"it did not answer within {seconds:g} s"
        case asyncssh.PermissionDenied():
            return "it did not let its user in with its key_file"
        case socket.gaierror():
            return error.strerror or "its address is not known"
        case OSError():  # whose own words may hold the address
            return os.strerror(error.errno) if error.errno else "it cannot be reached"
        case _:
            return str(error)[:MOST_REASON]
