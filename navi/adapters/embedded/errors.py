"""What goes wrong when navi runs its own servers.

EmbeddedServerError
├── BinaryNotFound         no Postgres or NATS program for this platform
├── CannotChangeUser       started as root, and Postgres refuses to run as root
├── PortTaken              a port that was named on purpose is not free
├── ServerDidNotStart      a server ended, or did not answer in time
├── NoCluster              the log of the data directory is on a Postgres that was not named
├── UnsuitableCluster      the data directory belongs to another major version of Postgres
└── DataDirectoryInUse     another process of navi owns the data directory
"""

from pathlib import Path

from navi.adapters.embedded.run_record import RunRecord

WAY_OUT = (
    "Set {variable} to use a server of your own instead "
    "(compose.yaml starts one), or {override} to the directory that holds the program."
)


class EmbeddedServerError(Exception):
    """An embedded server cannot be had; the message says why and what to do."""


class BinaryNotFound(EmbeddedServerError):
    """No program of this name is installed for this platform."""

    def __init__(self, program: str, *, variable: str, override: str) -> None:
        super().__init__(
            f"No embedded {program!r} is installed for this platform. "
            + WAY_OUT.format(variable=variable, override=override)
        )
        self.program = program


class CannotChangeUser(EmbeddedServerError):
    """Postgres refuses to run as root, and no other user can be had."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"Postgres refuses to run as root, and navi cannot start it as another user: {reason}. "
            "Start navi as an ordinary user, or set DATABASE_URL to a Postgres of your own."
        )


class PortTaken(EmbeddedServerError):
    """Another process listens on the port that was named for a server."""

    def __init__(self, server: str, *, port: int, variable: str) -> None:
        super().__init__(
            f"{variable}: port {port} of 127.0.0.1 is taken, and the embedded {server} was to listen "
            "there; name another one, 0 for any, or leave it unset"
        )


class ServerDidNotStart(EmbeddedServerError):
    """A server ended or did not answer; the message holds the end of its log."""

    def __init__(
        self, server: str, *, reason: str, log: Path, log_tail: str, variable: str
    ) -> None:
        super().__init__(
            f"The embedded {server} did not start: {reason}. The end of its log ({log}):\n"
            f"{log_tail or '(empty)'}\n"
            f"Set {variable} to use a server of your own instead."
        )
        self.server = server


class NoCluster(EmbeddedServerError):
    """The data directory was used with a Postgres of one's own, and navi was not told of it."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(
            f"The log of {data_dir} is on a Postgres of your own, and no navi runs that could name it: "
            "set DATABASE_URL, or, to begin another log here, remove its heads.jsonl and runs."
        )


class UnsuitableCluster(EmbeddedServerError):
    """The stored database cluster was written by another major version."""

    def __init__(self, cluster: Path, *, stored: str, installed: str) -> None:
        super().__init__(
            f"{cluster} was written by Postgres {stored}, and {installed} is installed. "
            "Export the sessions with the older version of navi, or run pg_upgrade."
        )


class DataDirectoryInUse(EmbeddedServerError):
    """Another process of navi holds the data directory; ``run`` says where its servers are."""

    def __init__(self, data_dir: Path, run: RunRecord | None) -> None:
        owner = f"process {run.pid}" if run is not None else "a process that is just starting"
        super().__init__(f"The data directory {data_dir} is in use by navi ({owner}).")
        self.data_dir = data_dir
        self.run = run
