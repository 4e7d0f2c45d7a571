"""How much later a client sees a piece that is at another node than the turn."""

from collections.abc import Mapping, Sequence

import psutil

from bench.service.viewer import Viewer


def later_elsewhere(nodes: Sequence[psutil.Process], viewers: Sequence[Viewer]) -> list[float]:
    """Milliseconds, for each piece and each client that is at another node, sorted.

    Compared with the first of the same session at the node of its turn, which is that of whoever spoke: of
    the viewers of a session it stands first. Both are read by this process, so what that takes is in both.
    """
    held = _held(nodes)
    speakers: dict[str, Viewer] = {}
    later: list[float] = []
    for viewer in viewers:
        speaker = speakers.setdefault(viewer.session_id, viewer)
        if held.get(viewer.port) != held.get(speaker.port):
            pairs = zip(viewer.delays, speaker.delays, strict=False)
            later += [there - here for there, here in pairs]
    return sorted(later)


def _held(nodes: Sequence[psutil.Process]) -> Mapping[int | None, int]:
    """By the port of a client: which process holds the other end."""
    return {
        connection.raddr.port: node.pid
        for node in nodes
        for connection in node.net_connections("tcp")
        if connection.raddr
    }
