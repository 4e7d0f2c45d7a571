"""The time-outs of the tool ``ssh``."""

from msgspec import Struct


class SshDelays(Struct, frozen=True, kw_only=True):
    """Seconds.

    Attributes:
        connect: for a connection, the log-in included.
        idle: that a connection without commands stays open.
        ending: for a command that ran into its time-out, or was stopped, to be gone from its host.
        stopped: of these, what a call that was stopped waits; a stop is answered within a second.
        look: between two looks at the file of hosts.
    """

    connect: float = 10.0
    idle: float = 300.0
    ending: float = 15.0
    stopped: float = 0.6
    look: float = 2.0
