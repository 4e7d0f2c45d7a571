"""What servers may do, and what comes of it: real sockets on the loopback."""

import gzip
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

import brotli
import pytest

from navi.adapters.tools.web.fetch import MAX_BYTES, Fetched, NotFetched, fetch
from navi.adapters.tools.web.network import CheckedNetwork, Deadline
from navi.domain.tools.web_addresses import Refused, parse_allowed
from tests.support.certificates import self_signed
from tests.support.web_server import Answer, WebServer, answer, redirect, web_server

MIB = 2**20


@pytest.fixture
def web() -> Generator[WebServer, None, None]:
    with web_server({"/": answer(b"hello")}) as server:
        yield server


def nowhere(host: str, port: int) -> Sequence[str]:
    raise OSError(f"{host}:{port} is nowhere")


def at(*addresses: str) -> Callable[[str, int], Sequence[str]]:
    """Every name leads to the first of these, and to the next one when it is looked up again."""
    answers = iter(addresses)
    return lambda host, port: next(answers).split()


def allowing(
    *allowed: str, resolve: Callable[[str, int], Sequence[str]] = nowhere
) -> Callable[[Deadline], CheckedNetwork]:
    return lambda deadline: CheckedNetwork(
        deadline, allowed=parse_allowed(" ".join(allowed)), resolve=resolve, own=tuple
    )


def get(web: WebServer, path: str = "/", *, seconds: float = 20.0) -> Fetched:
    """What the server gives, which alone may be reached."""
    return fetch(web.url + path, connect=allowing(f"127.0.0.1:{web.port}"), seconds=seconds)


def test_a_page_comes_as_it_is(web: WebServer) -> None:
    web.answers["/a"] = answer(b"hello", kind="text/html; charset=utf-8")

    assert get(web, "/a?b=c#d") == Fetched(
        url=f"{web.url}/a?b=c", status=200, content_type="text/html; charset=utf-8", body=b"hello"
    )


def test_the_request_says_what_it_has_to_and_nothing_else(
    web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nobody listens there

    get(web, "/ä b?q=ü&x=%20")

    first, *fields = web.requests[0].decode().strip().split("\r\n")
    assert first == "GET /%C3%A4%20b?q=%C3%BC&x=%20 HTTP/1.1"
    assert sorted(field.partition(":")[0] for field in fields) == [
        "Accept", "Accept-Encoding", "Connection", "Host", "User-Agent",
    ]  # fmt: skip


@pytest.mark.parametrize("status", [400, 404, 500, 503])
def test_what_came_with_an_error_is_kept(web: WebServer, status: int) -> None:
    web.answers["/"] = answer(b"sorry", status=status)

    assert (get(web).status, get(web).body) == (status, b"sorry")


# Redirects


def chain(web: WebServer, length: int) -> None:
    for number in range(length):
        web.answers[f"/{number}"] = redirect(f"/{number + 1}")
    web.answers[f"/{length}"] = answer(b"the end")


def test_five_redirects_are_followed(web: WebServer) -> None:
    chain(web, 5)

    assert (get(web, "/0").body, get(web, "/0").url) == (b"the end", f"{web.url}/5")


def test_a_sixth_redirect_is_not(web: WebServer) -> None:
    chain(web, 6)

    with pytest.raises(NotFetched, match="more than 5 redirects"):
        get(web, "/0")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_every_kind_of_redirect_is_followed(web: WebServer, status: int) -> None:
    web.answers["/to"] = redirect("./?x=1", status)

    assert (get(web, "/to").url, get(web, "/to").body) == (f"{web.url}/?x=1", b"hello")


@pytest.mark.parametrize(
    "location",
    [
        "http://10.0.0.1/",
        "http://127.0.0.1:1/",  # the same machine, another port
        "//169.254.169.254/latest",
        "http://[::ffff:127.0.0.1]:1/",
        "http://0x7f.1:1/",
        "http://someone@127.0.0.1/",
        "file:///etc/passwd",
        "ftp://public.example/",
        "javascript:alert(1)",
    ],
)
def test_each_redirect_is_checked(web: WebServer, location: str) -> None:
    web.answers["/first"] = redirect("/second")
    web.answers["/second"] = redirect(location)

    with pytest.raises(Refused, match=r"only|not asked for"):
        get(web, "/first")
    assert len(web.requests) == 2


def test_a_redirect_to_nowhere_says_which_page_it_was_on(web: WebServer) -> None:
    web.answers["/"] = redirect("http://[")

    with pytest.raises(NotFetched, match=rf"^{web.url}/: .*is no address"):
        get(web)


def test_no_cookie_is_kept(web: WebServer) -> None:
    web.answers["/"] = answer(status=302, Location="/next", Set_Cookie="id=1; Path=/")

    get(web)

    assert all(b"ookie" not in request for request in web.requests)


# Names


def test_a_name_is_looked_up_once_and_that_address_is_connected_to(web: WebServer) -> None:
    """A name that leads to a checked address first and elsewhere later is never asked twice."""
    turn = at("127.0.0.1", "127.0.0.2")
    asked: list[str] = []

    def turncoat(host: str, port: int) -> Sequence[str]:
        asked.append(f"{host}:{port}")
        return turn(host, port)

    connect = allowing(f"127.0.0.1:{web.port}", resolve=turncoat)

    got = fetch(f"http://rebind.example:{web.port}/", connect=connect)

    assert (got.body, asked) == (b"hello", [f"rebind.example:{web.port}"])
    assert f"Host: rebind.example:{web.port}".encode() in web.requests[0]


def test_a_name_that_leads_elsewhere_after_a_redirect_is_refused(web: WebServer) -> None:
    web.answers["/"] = redirect("/again")
    connect = allowing(f"127.0.0.1:{web.port}", resolve=at("127.0.0.1", "10.0.0.1"))

    with pytest.raises(Refused, match=r"10\.0\.0\.1 is private \(that is where rebind.example"):
        fetch(f"http://rebind.example:{web.port}/", connect=connect)


def test_the_next_address_is_tried_where_nobody_listens(web: WebServer) -> None:
    connect = allowing("127.0.0.0/8", resolve=at("127.0.0.9 127.0.0.1"))

    assert fetch(f"http://two.example:{web.port}/", connect=connect).body == b"hello"


def test_a_look_up_that_never_ends_ends_with_the_time() -> None:
    asked, answer_now = threading.Event(), threading.Event()

    def silent(host: str, port: int) -> Sequence[str]:
        asked.set()
        answer_now.wait()
        raise OSError(f"{host}:{port}: too late")

    try:
        with pytest.raises(NotFetched, match=r"longer than 0\.2 s"):
            fetch("http://slow.example/", connect=allowing(resolve=silent), seconds=0.2)
    finally:
        answer_now.set()
    assert asked.is_set()


def test_a_real_resolver_knows_localhost(web: WebServer) -> None:
    allowed = parse_allowed("127.0.0.0/8 ::1")
    got = fetch(
        f"http://localhost:{web.port}/", connect=lambda left: CheckedNetwork(left, allowed=allowed)
    )

    assert got.body == b"hello"


# Sizes


def gzipped(size: int) -> bytes:
    return gzip.compress(bytes(size), 9)


def deflated(size: int) -> bytes:
    return zlib.compress(bytes(size), 9)


def deflated_raw(size: int) -> bytes:
    pack = zlib.compressobj(9, wbits=-15)
    return pack.compress(bytes(size)) + pack.flush()


def brotlied(size: int) -> bytes:
    return brotli.compress(bytes(size), quality=5)


PACKED = {"gzip": gzipped, "deflate": deflated, "deflate, raw": deflated_raw, "br": brotlied}


@pytest.mark.parametrize("name", PACKED)
def test_a_packed_page_is_unpacked(web: WebServer, name: str) -> None:
    encoding = name.partition(",")[0]
    web.answers["/"] = answer(PACKED[name](5 * MIB), Content_Encoding=encoding)

    assert get(web).body == bytes(5 * MIB)


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("size", [MAX_BYTES + 1, 40 * MIB])
def test_a_bomb_is_not_unpacked(web: WebServer, name: str, size: int) -> None:
    encoding = name.partition(",")[0]
    web.answers["/"] = answer(PACKED[name](size), Content_Encoding=encoding)

    with pytest.raises(NotFetched, match="it has more than 5 MiB"):
        get(web)


def test_a_gzip_of_many_members_is_a_bomb_too(web: WebServer) -> None:
    web.answers["/"] = answer(gzipped(MIB) * 2 + b"\0\0", Content_Encoding="gzip")
    web.answers["/bomb"] = answer(gzipped(MIB) * 6, Content_Encoding="gzip")

    assert get(web).body == bytes(2 * MIB)
    with pytest.raises(NotFetched, match="it has more than 5 MiB"):
        get(web, "/bomb")


@pytest.mark.parametrize("encoding", ["zstd", "gzip, gzip", "compress", "x" * 900])
def test_what_was_not_asked_for_is_not_unpacked(web: WebServer, encoding: str) -> None:
    web.answers["/"] = answer(b"?", Content_Encoding=encoding)

    with pytest.raises(NotFetched, match="which was not asked for"):
        get(web)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br"])
def test_what_is_packed_wrong_is_an_error(web: WebServer, encoding: str) -> None:
    web.answers["/"] = answer(b"\xff this is not packed at all", Content_Encoding=encoding)

    with pytest.raises(NotFetched, match="is broken"):
        get(web)


def test_a_page_of_just_the_limit_comes_and_a_larger_one_does_not(web: WebServer) -> None:
    web.answers["/fits"] = answer(bytes(MAX_BYTES))
    web.answers["/larger"] = b"HTTP/1.0 200 OK\r\n\r\n" + bytes(MAX_BYTES + 1)

    assert len(get(web, "/fits").body) == MAX_BYTES
    with pytest.raises(NotFetched, match="it has more than 5 MiB"):
        get(web, "/larger")


def test_what_says_that_it_is_too_large_is_not_read(web: WebServer) -> None:
    web.answers["/"] = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\nbeginning"

    with pytest.raises(NotFetched, match="it has more than 5 MiB"):
        get(web)


# Misbehaviour


@pytest.mark.parametrize(
    "lie",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nshort",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 60_000 + b"\r\n",
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"",
    ],
    ids=["too short", "half a chunk", "no chunk", "negative", "two lengths", "headers", "ssh", "nothing"],
)  # fmt: skip
def test_what_is_no_answer_is_an_error(web: WebServer, lie: bytes) -> None:
    web.answers["/"] = lie

    with pytest.raises(NotFetched, match=rf"^{web.url}/: \S"):
        get(web)


def test_what_follows_the_length_is_not_read(web: WebServer) -> None:
    web.answers["/"] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello and much more"

    assert get(web).body == b"hello"


def drip(connection: socket.socket, end: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    while not end.wait(0.02):
        connection.sendall(b".")


def drip_head(connection: socket.socket, end: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while not end.wait(0.02):
        connection.sendall(b"X: y\r\n")


def informed(connection: socket.socket, end: threading.Event) -> None:
    while not end.is_set():
        connection.sendall(b"HTTP/1.1 103 Early Hints\r\n\r\n")


def chunks(connection: socket.socket, end: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while not end.is_set():
        connection.sendall(b"1\r\n.\r\n" * 100)


def silence(connection: socket.socket, end: threading.Event) -> None:
    end.wait()


@pytest.mark.parametrize("misbehave", [drip, drip_head, informed, chunks, silence])
def test_the_time_is_for_all_of_it(web: WebServer, misbehave: Answer) -> None:
    web.answers["/"] = misbehave
    began = time.monotonic()

    with pytest.raises(NotFetched, match=r"it took longer than 0\.4 s"):
        get(web, seconds=0.4)

    assert time.monotonic() - began < 20


def test_where_nobody_listens_is_said() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        port = taken.getsockname()[1]

        with pytest.raises(NotFetched, match="Connection refused"):
            fetch(f"http://127.0.0.1:{port}/", connect=allowing("127.0.0.1"))


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and the certificate of ``shop.example`` that it signed itself."""
    return self_signed(tmp_path_factory.mktemp("tls") / "both.pem", "shop.example")


def test_tls_is_for_the_name_and_not_for_the_address(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    names: list[str | None] = []
    context.sni_callback = lambda _, name, __: names.append(name)
    with web_server({"/": answer(b"secret")}, tls=context) as web:
        connect = allowing("127.0.0.1", resolve=at(*["127.0.0.1"] * 3))

        with pytest.raises(NotFetched, match="TLS: self-signed certificate"):
            fetch(f"https://shop.example:{web.port}/", connect=connect)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))  # an operator's own authority
        got = fetch(f"https://shop.example:{web.port}/", connect=connect)
        with pytest.raises(NotFetched, match="TLS: Hostname mismatch"):
            fetch(f"https://other.example:{web.port}/", connect=connect)

    assert (got.body, names) == (b"secret", ["shop.example", "shop.example", "other.example"])
