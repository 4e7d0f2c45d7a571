"""Ask a SearXNG of the operator's for what it finds."""

from base64 import b64encode
from urllib.parse import unquote, urlencode, urlsplit

import msgspec
from msgspec import Struct

from navi.adapters.tools.web.fetch import Connect, NotFetched, TooManyRedirects, fetch, phrase_of
from navi.adapters.tools.web.network import CheckedNetwork, Deadline
from navi.adapters.tools.web.url import PORTS
from navi.adapters.tools.web.wire import Answer, RequestFailed, Results, Search
from navi.domain.tools.tool_output import clean_text
from navi.domain.tools.web_addresses import Allowed, Refused
from navi.domain.vocabulary.events import Json

MAX_RESULTS = 10
TITLE, ADDRESS, EXCERPT = 200, 2_000, 500  # characters

_WHY = {
    403: "it gives no JSON: its settings.yml has to name json under search, formats",
    429: "its limiter refuses it: its settings.yml has to say limiter: false under server, or its "
    "limiter.toml to let this machine pass",
}


class _Found(Struct, frozen=True, kw_only=True):
    url: str = ""
    title: str | None = None
    content: str | None = None


class _Answer(Struct, frozen=True, kw_only=True):
    results: tuple[_Found, ...] = ()
    answers: tuple[Json, ...] = ()
    unresponsive_engines: tuple[Json, ...] = ()


def server_network(deadline: Deadline, server: str) -> CheckedNetwork:
    """The network in which that server is reached, wherever it is, and nothing else that is private."""
    parts = urlsplit(server)
    host = (parts.hostname or "").removesuffix(".")
    port = parts.port or PORTS.get(parts.scheme, 0)
    return CheckedNetwork(deadline, allowed=Allowed(hosts=((host, port),)))


def found(search: Search, connect: Connect) -> Answer:
    """What the server finds, as text."""
    url, headers = request_of(search)
    try:
        got = fetch(
            url, connect=connect, headers=headers, accept="application/json", max_redirects=0
        )
    except TooManyRedirects:
        return _failed("it redirects: SEARXNG_URL is to be the address that it has")
    except (NotFetched, Refused) as error:
        return _failed(str(error).removeprefix(f"{url}: "))
    if got.status != 200:
        return _failed(
            f"{phrase_of(got.status)}; {_WHY.get(got.status, 'its own log may say more')}"
        )
    try:
        answer = msgspec.json.decode(got.body, type=_Answer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _failed(
            "it did not answer in JSON: SEARXNG_URL may be the address of something else"
        )
    return Results(text=clean_text(_shown(answer)))


def request_of(search: Search) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The address that is asked, and the headers that let navi in there."""
    parts = urlsplit(search.server)
    query = urlencode({"q": search.query, "format": "json"})
    user, _, place = parts.netloc.rpartition("@")
    url = f"{parts.scheme}://{place}{parts.path.rstrip('/')}/search?{query}"
    headers: tuple[tuple[str, str], ...] = ()
    if user:
        word = b64encode(unquote(user).encode()).decode()
        headers = (("Authorization", f"Basic {word}"),)
    return url, headers


def _failed(why: str) -> RequestFailed:
    return RequestFailed(outcome="error", why=f"The SearXNG of SEARXNG_URL: {why}")


def _shown(answer: _Answer) -> str:
    lines = [_line(text, EXCERPT) for text in map(_text_of, answer.answers[:3]) if text]
    results = [result for result in answer.results if _scheme(result.url) in PORTS]
    for number, result in enumerate(results[:MAX_RESULTS], start=1):
        lines.append(f"{number}. {_line(result.title or result.url, TITLE)}")
        lines.append(f"   {_line(result.url, ADDRESS)}")
        if excerpt := _line(result.content or "", EXCERPT):
            lines.append(f"   {excerpt}")
    if not lines:
        silent = ", ".join(_text_of(engine) for engine in answer.unresponsive_engines[:10])
        return f"Nothing was found.{f' These engines did not answer: {silent}' if silent else ''}"
    return "\n".join(lines)


def _scheme(url: str) -> str:
    """What a URL begins with; empty where it is none."""
    return url.partition("://")[0].lower() if "://" in url else ""


def _text_of(value: Json) -> str:
    """An entry that is a text, or an object or list with texts, by version of SearXNG."""
    match value:
        case str():
            return value
        case {"answer": str(text)}:
            return text
        case [*parts]:
            return ": ".join(part for part in parts if isinstance(part, str))
        case _:
            return ""


def _line(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
