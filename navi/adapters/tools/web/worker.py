"""The process of a call of a web tool: what comes from outside is met here, and ends with it.

A hostile page may take all the time and memory that there is. Here that is little, a kernel ends
what takes more, and nothing else is hit. Started as a program it reads a request from standard input
and writes the answer to standard output.
"""

import os
import resource
import signal
import sys
from collections.abc import Callable

import msgspec

from navi.adapters.tools.web.fetch import SECONDS, NotFetched, fetch
from navi.adapters.tools.web.network import CheckedNetwork, Deadline
from navi.adapters.tools.web.searxng import found, server_network
from navi.adapters.tools.web.to_text import NotReadable, to_text
from navi.adapters.tools.web.wire import Answer, FetchPage, Page, Request, RequestFailed, Search
from navi.domain.tools.tool_output import clean_text
from navi.domain.tools.web_addresses import Refused, parse_allowed

SHOWN_BYTES = 64 * 1024  # of a text at once: about 16,000 tokens
MEMORY = 1024 * 1024 * 1024  # bytes of addresses
READ_SECONDS = 10.0  # of a processor, to make text of what was fetched
READ_AT_MOST = 30.0  # by the clock, where others use the processor as well

Connect = Callable[[Deadline], CheckedNetwork]


def main() -> None:
    """Answer the request on standard input."""
    _limit()
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=Request)
    sys.stdout.buffer.write(msgspec.json.encode(answer(request)))
    sys.stdout.buffer.flush()
    os._exit(0)  # a look-up that goes on would keep the process


def answer(request: Request) -> Answer:
    """What there is at the address, or what was found."""
    match request:
        case FetchPage():
            allowed = parse_allowed(request.allowed)
            return page_at(request, lambda deadline: CheckedNetwork(deadline, allowed=allowed))
        case Search():
            return found(request, lambda deadline: server_network(deadline, request.server))


def page_at(request: FetchPage, connect: Connect) -> Answer:
    """The part of a page that is asked for."""
    try:
        fetched = fetch(request.url, connect=connect)
    except Refused as refused:
        return RequestFailed(outcome="denied", why=str(refused))
    except NotFetched as error:
        return RequestFailed(outcome="error", why=str(error))
    _alarm(READ_AT_MOST, processor=READ_SECONDS)
    try:
        text = to_text(fetched.body, fetched.content_type, fetched.url)
    except NotReadable as error:
        if fetched.status >= 400:
            return _part(fetched.url, fetched.status, "nothing", "", 0, str(error))
        return RequestFailed(outcome="error", why=f"{fetched.url[:300]}: {error}")
    except MemoryError:
        return RequestFailed(
            outcome="error", why=f"{fetched.url[:300]}: it takes too much memory to read"
        )
    return _part(
        fetched.url, fetched.status, text.kind, clean_text(text.text), request.start, text.remark
    )


def _part(url: str, status: int, kind: str, text: str, start: int, remark: str) -> Answer:
    if start > 0 and start >= len(text):
        return RequestFailed(
            outcome="error", why=f"start is {start:,}, and the text has {len(text):,} characters"
        )
    return Page(
        url=url,
        status=status,
        kind=kind,
        text=part_of(text, start),
        start=start,
        total=len(text),
        remark=remark,
    )


def part_of(text: str, start: int) -> str:
    """As much of a text from a character on as is shown at once, up to a line end where one is near."""
    part = text[start : start + SHOWN_BYTES]
    raw = part.encode()
    if len(raw) > SHOWN_BYTES:
        part = raw[:SHOWN_BYTES].decode("utf-8", "ignore")
    if start + len(part) == len(text):
        return part
    end = part.rfind("\n") + 1
    return part[:end] if end > len(part) * 3 // 4 else part


def _limit() -> None:
    _alarm(SECONDS + 3)
    for what, most in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_CPU, int(SECONDS + READ_SECONDS)),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(what)
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (limit, limit))


def _alarm(seconds: float, *, processor: float = 0.0) -> None:
    # The default action of these signals ends the process wherever it is, even when nobody is left
    # who could kill it.
    signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_PROF, processor)


if __name__ == "__main__":
    main()
