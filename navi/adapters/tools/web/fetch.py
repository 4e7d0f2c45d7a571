"""Get what stands at an address of the web: bounded, checked at every redirect, without a trace."""

import ssl
import zlib
from collections.abc import Callable, Iterator
from http import HTTPStatus

import brotli
import httpcore
from msgspec import Struct

from navi import __version__
from navi.adapters.tools.web.network import Deadline, NoSuchHost, TooLate
from navi.adapters.tools.web.url import Target, parse_target
from navi.domain.tools.web_addresses import NotAnAddress, Refused

MAX_BYTES = 5 * 1024 * 1024  # of a page, packed and unpacked
MAX_REDIRECTS = 5
SECONDS = 20.0  # for all of it
PIECE = 64 * 1024  # unpacked at once
REDIRECTS = (301, 302, 303, 307, 308)
ACCEPT = (
    "text/html, application/xhtml+xml, text/markdown, application/pdf, application/json;q=0.9, "
    "text/*;q=0.9, */*;q=0.1"
)

Connect = Callable[[Deadline], httpcore.NetworkBackend]


class NotFetched(Exception):
    """There is nothing to be had; the message says why."""


class TooManyRedirects(NotFetched):
    """One led to another."""


class Fetched(Struct, frozen=True, kw_only=True):
    """What a server answered.

    Attributes:
        url: where it was at last.
        content_type: as the server wrote it; empty where it did not.
        body: unpacked.
    """

    url: str
    status: int
    content_type: str
    body: bytes


def fetch(
    url: str,
    *,
    connect: Connect,
    headers: tuple[tuple[str, str], ...] = (),
    accept: str = ACCEPT,
    max_redirects: int = MAX_REDIRECTS,
    seconds: float = SECONDS,
) -> Fetched:
    """What stands at a URL, where its redirects lead.

    No cookie, no credential and no proxy of the environment takes part.

    Args:
        connect: the network for a deadline.
        headers: more of them, for the first address only.

    Raises:
        Refused: a rule forbids it, here or where a redirect leads.
        NotFetched: all else that went wrong.
    """
    deadline = Deadline(seconds)
    shown = url[:200]
    try:
        target = parse_target(url)
    except NotAnAddress as error:
        raise NotFetched(str(error)) from error
    except Refused as refused:
        raise Refused(f"{shown}: {refused}") from refused
    try:
        for _ in range(max_redirects + 1):
            shown = str(target)[:300]
            answer = _get(target, connect(deadline), deadline, headers=headers, accept=accept)
            if isinstance(answer, Fetched):
                return answer
            target, headers = answer, ()
    except NoSuchHost as error:
        raise NotFetched(f"{shown}: there is no host {error}") from error
    except (Refused, NotFetched) as error:
        raise type(error)(f"{shown}: {error}") from error
    except (TooLate, httpcore.TimeoutException) as error:
        raise NotFetched(f"{shown}: it took longer than {seconds:g} s") from error
    except (httpcore.NetworkError, httpcore.ProtocolError, OSError) as error:
        raise NotFetched(f"{shown}: {_cause(error)}") from error
    raise TooManyRedirects(f"{url[:200]}: more than {max_redirects} redirects")


def _get(
    target: Target,
    network: httpcore.NetworkBackend,
    deadline: Deadline,
    *,
    headers: tuple[tuple[str, str], ...],
    accept: str,
) -> Fetched | Target:
    """The answer, or where it redirects to."""
    context = _tls() if target.scheme == "https" else None
    request = httpcore.URL(
        scheme=target.scheme, host=target.host, port=target.port, target=target.path
    )
    sent = [
        ("Host", target.netloc),
        ("User-Agent", f"Mozilla/5.0 (compatible; navi/{__version__})"),
        ("Accept", accept),
        ("Accept-Encoding", "gzip, deflate, br"),
        ("Connection", "close"),
        *headers,
    ]
    with (
        httpcore.ConnectionPool(
            ssl_context=context,
            network_backend=network,
            max_connections=1,
            max_keepalive_connections=0,
        ) as pool,
        pool.stream("GET", request, headers=sent) as response,
    ):
        got = {name.lower(): value.decode("latin-1") for name, value in response.headers}
        if response.status in REDIRECTS and (location := got.get(b"location")):
            try:
                return parse_target(_readable(location), base=target)
            except NotAnAddress as error:
                raise NotFetched(f"it redirects, and {error}") from error
        if (length := got.get(b"content-length", "")).isdecimal() and int(length) > MAX_BYTES:
            raise NotFetched(_too_large())
        encoding = got.get(b"content-encoding", "")
        try:
            body = _whole(_unpacked(_packed(response, deadline), encoding))
        except (zlib.error, brotli.error) as error:
            raise NotFetched(f"what it packed as {encoding[:40]!r} is broken") from error
        return Fetched(
            url=str(target),
            status=response.status,
            content_type=got.get(b"content-type", "")[:200],
            body=body,
        )


def phrase_of(status: int) -> str:
    """A status in words of the standard: those of a server are not trusted."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _packed(response: httpcore.Response, deadline: Deadline) -> Iterator[bytes]:
    size = 0
    for piece in response.iter_stream():
        deadline.left()  # what comes fast in tiny pieces ends with it as well
        size += len(piece)
        if size > MAX_BYTES:
            raise NotFetched(_too_large())
        yield piece


def _unpacked(pieces: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    match [name.strip() for name in encoding.lower().split(",") if name.strip() != "identity"]:
        case [] | [""]:
            return pieces
        case ["gzip" | "x-gzip"]:
            return _inflated(pieces, 16 + zlib.MAX_WBITS)
        case ["deflate"]:
            return _inflated(pieces, zlib.MAX_WBITS)
        case ["br"]:
            return _from_brotli(pieces)
        case _:
            raise NotFetched(f"it is packed as {encoding[:40]!r}, which was not asked for")


def _inflated(pieces: Iterator[bytes], bits: int) -> Iterator[bytes]:
    unpack, first = zlib.decompressobj(bits), True
    for piece in pieces:
        data = piece
        if first and bits == zlib.MAX_WBITS and data[:1] and data[0] & 0x0F != 8:
            unpack = zlib.decompressobj(-bits)  # deflate without a head, as some servers have it
        first = False
        while data:
            yield unpack.decompress(data, PIECE)
            data = unpack.unconsumed_tail
            if unpack.eof:
                if bits == zlib.MAX_WBITS or not (data := unpack.unused_data.lstrip(b"\0")):
                    return  # what follows is not of it
                unpack = zlib.decompressobj(bits)  # a gzip may have several members
    while not unpack.eof and (rest := unpack.decompress(b"", PIECE)):
        yield rest


def _from_brotli(pieces: Iterator[bytes]) -> Iterator[bytes]:
    unpack = brotli.Decompressor()
    for piece in pieces:
        data = unpack.process(piece, output_buffer_limit=PIECE)
        while data:
            yield data
            if unpack.is_finished():
                return  # what follows is not of it
            data = unpack.process(b"", output_buffer_limit=PIECE)


def _whole(pieces: Iterator[bytes]) -> bytes:
    whole = bytearray()
    for piece in pieces:
        whole += piece
        if len(whole) > MAX_BYTES:
            raise NotFetched(_too_large())
    return bytes(whole)


def _too_large() -> str:
    return f"it has more than {MAX_BYTES // 2**20} MiB"


def _tls() -> ssl.SSLContext:
    context = httpcore.default_ssl_context()
    context.load_default_certs()  # the system's too: an operator may have added an authority
    return context


def _readable(location: str) -> str:
    """A Location as it was meant: some servers write UTF-8 where only ASCII is allowed."""
    try:
        return location.encode("latin-1").decode()
    except UnicodeDecodeError:
        return location


def _cause(error: Exception) -> str:
    """Why a connection failed, in the words of what `httpcore` wraps."""
    inner = error.args[0] if error.args and isinstance(error.args[0], Exception) else error
    if isinstance(inner, ssl.SSLError):
        return f"TLS: {getattr(inner, 'verify_message', '') or inner.reason or inner}"[:200]
    text = inner.strerror if isinstance(inner, OSError) else str(inner)
    return (text or type(inner).__name__)[:200]
