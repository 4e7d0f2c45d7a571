"""A web server on the loopback that answers with the very bytes, or the misbehaviour, that a test names."""

import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import cast

Misbehave = Callable[[socket.socket, threading.Event], None]
Answer = bytes | Misbehave


def answer(
    body: bytes = b"", *, status: int = 200, kind: str | None = "text/plain", **headers: str
) -> bytes:
    """A whole HTTP answer."""
    lines = [f"HTTP/1.1 {status} Whatever"]
    fields = {"Content-Length": str(len(body)), **headers}
    if kind is not None:
        fields["Content-Type"] = kind
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def redirect(location: str, status: int = 302) -> bytes:
    """An answer that leads elsewhere."""
    return answer(status=status, Location=location)


class WebServer:
    """What it was asked, and where it is."""

    def __init__(self, port: int, end: threading.Event, answers: dict[str, Answer]) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.requests: list[bytes] = []
        self.answers = answers
        self.end = end  # set when the test is over: an answer that goes on for ever ends


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, answers: Mapping[str, Answer], tls: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.web = WebServer(int(self.server_address[1]), threading.Event(), dict(answers))


class _Connection(socketserver.BaseRequestHandler):
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]  # ours

    def handle(self) -> None:
        connection = cast(socket.socket, self.request)
        asked = b""
        with suppress(OSError):
            while b"\r\n\r\n" not in asked:
                if not (piece := connection.recv(65_536)):
                    return
                asked += piece
            self.server.web.requests.append(asked)
            path = asked.split(b" ")[1].decode()
            given = self.server.web.answers.get(path.partition("?")[0], answer(status=404))
            if isinstance(given, bytes):
                connection.sendall(given)
            else:
                given(connection, self.server.web.end)


@contextmanager
def web_server(
    answers: Mapping[str, Answer], *, tls: ssl.SSLContext | None = None
) -> Generator[WebServer, None, None]:
    """A running server; ``answers`` by path."""
    with _Server(answers, tls) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server.web
        finally:
            server.web.end.set()
            server.shutdown()
            thread.join()
