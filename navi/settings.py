"""Settings: read from the environment, validated once, passed on as values."""

import ipaddress
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import quote, urlsplit

import platformdirs
from msgspec import Struct

from navi.domain.accounts.accounts import checked_name
from navi.domain.log.secrets import secret_values
from navi.domain.tools.web_addresses import parse_allowed
from navi.domain.vocabulary.errors import BadInput
from navi.domain.vocabulary.principal import (
    DEFAULT_LIMITS,
    MAX_REQUESTS,
    MAX_SOCKETS,
    MAX_TOKENS,
    MAX_TURNS,
    NO_LIMITS,
    Limits,
)
from navi.failpoints import Failpoint
from navi.failpoints import parse as parse_failpoints

CodeExec = Literal["auto", "off"]
Auth = Literal["none", "accounts", "proxy"]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Backend = Literal["auto", "ollama", "openai", "demo"]
T = TypeVar("T")

_NAME = re.compile(r"[a-z0-9_.-]{1,253}")  # as browsers and programs put it into Host
_NO_HOST = re.compile(r"[^\w.:%-]")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBERS = re.compile(r"[\d.]+")  # an address and no name: names are not all numbers (RFC 3696, 2)

REFUSED_SUFFIXES = (
    ".exe .com .bat .cmd .msi .scr .dll .so .jar .app .ps1 .sh .bash .py .pyc .pl .rb .php"
)
MOST_PROCESSES = 256
TRUE, FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


class Settings(Struct, frozen=True, kw_only=True):
    """All settings; the public contract lists their names in the environment.

    Attributes:
        nats_port: of the embedded NATS, 0 for any; None for the usual one where that is free.
        processes: that serve, each a node; "auto" for as many as there are cores.
        llm_chunk_timeout: seconds; None where it was not set, so that a backend may know better.
        context_window: tokens of one call, whatever the servers say; None to ask them.
        model_slots: calls at once that a server is given, likewise.
        compression_threshold: share of the context window, 0 to 1.
        tools_env: names of variables that own tools may see.
        auth: how people are told apart.
        proxy_header: in which a proxy names the user, in lower case.
        proxy_peers: networks whose word is taken for who and where a client is; None where not set.
        proxy_admins: names that are admins where a proxy names the users.
        user_limits: of every user who was given none of their own.
        local_limits: of the one person that there is without accounts: those that were set.
        navi_url: of a navi elsewhere, which commands ask in place of the one here.
        navi_token: what they show it.
        secrets: values that must not be logged, by the names of their variables.
    """

    host: str
    port: int
    processes: int | Literal["auto"]
    data_dir: Path
    database_url: str | None
    nats_url: str | None
    nats_port: int | None
    llm: Backend
    model: str | None
    embedding_model: str | None
    ollama_host: str
    ollama_backends_file: Path | None
    ollama_num_ctx: int
    openai_base_url: str | None
    openai_api_key: str | None
    openai_backends_file: Path | None
    openai_embedding_base_url: str | None
    openai_embedding_api_key: str | None
    context_window: int | None
    model_slots: int | None
    llm_first_chunk_timeout: float
    llm_chunk_timeout: float | None
    compression_enabled: bool
    compression_threshold: float
    keep_recent: int
    summary_temperature: float
    files_max_size_mb: int
    refused_suffixes: tuple[str, ...]
    files_ttl_hours: float
    log_partitions: int
    stream_max_age_hours: int
    drain_seconds: float
    failpoints: tuple[Failpoint, ...]
    profiles_dir: Path
    tools_dir: Path
    tools_env: tuple[str, ...]
    code_exec: CodeExec
    code_packages_dir: Path | None
    skills_dir: Path
    mcp_file: Path
    ssh_file: Path
    web_allow: str
    searxng_url: str | None
    allowed_hosts: tuple[str, ...]
    auth: Auth
    proxy_header: str
    proxy_peers: tuple[Network, ...] | None
    proxy_admins: tuple[str, ...]
    user_limits: Limits
    local_limits: Limits
    postgres_bin: Path | None
    nats_bin: Path | None
    log_level: str
    navi_url: str | None
    navi_token: str | None
    secrets: Mapping[str, str]

    @property
    def files_dir(self) -> Path:
        """Where sessions keep their files; shared by all nodes."""
        return self.data_dir / "files"

    @property
    def prices_file(self) -> Path:
        """What tokens cost, by model."""
        return self.data_dir / "prices.json"

    @property
    def chosen(self) -> Mapping[str, Path]:
        """Where the user's own files are, by their names in a data directory."""
        return {
            "profiles": self.profiles_dir,
            "tools": self.tools_dir,
            "skills": self.skills_dir,
            "mcp.json": self.mcp_file,
            "ssh.json": self.ssh_file,
            "prices.json": self.prices_file,
        }

    @property
    def keys_dir(self) -> Path:
        """Where the key that signs is, and the public keys that are trusted."""
        return self.data_dir / "keys"

    def require_here(self) -> None:
        """Refuse what works on the log itself where the settings name a navi elsewhere.

        Raises:
            BadInput: they do.
        """
        if self.navi_url is not None:
            raise BadInput(
                "NAVI_URL", "is set, and this command works only on the machine where navi runs"
            )

    @property
    def sandbox_proof(self) -> Path:
        """What is kept of the attacks that the sandbox has stood."""
        return self.data_dir / "sandbox.json"


def read_settings(environment: Mapping[str, str]) -> Settings:
    """The settings that an environment asks for.

    Raises:
        BadInput: names the variable whose value is not understood, and says why.
    """
    read = _Reader(environment)
    data_dir = read.one("NAVI_DATA_DIR", Path, default=None)
    if data_dir is None:
        data_dir = Path(platformdirs.user_data_dir("navi", appauthor=False))
    data_dir = data_dir.expanduser()
    _check_path("NAVI_DATA_DIR", str(data_dir))
    return Settings(
        host=read.one("NAVI_HOST", _host, default="127.0.0.1"),
        port=read.one("NAVI_PORT", _whole(0, 65535), default=8000),
        processes=read.one("NAVI_PROCESSES", _processes, default=1),
        data_dir=data_dir,
        database_url=read.one("DATABASE_URL", _url("postgresql", "postgres"), default=None),
        nats_url=_with_token(
            read.one("NATS_URL", _url("nats", "tls", "ws", "wss"), default=None),
            read.one("NATS_TOKEN", str, default=None),
        ),
        nats_port=read.one("NAVI_NATS_PORT", _whole(0, 65535), default=None),
        llm=read.one("NAVI_LLM", _backend, default="auto"),
        model=read.one("NAVI_MODEL", str, default=None),
        embedding_model=read.one("NAVI_EMBEDDING_MODEL", str, default=None),
        ollama_host=read.one("OLLAMA_HOST", _ollama_host, default="http://127.0.0.1:11434"),
        ollama_backends_file=read.one("OLLAMA_BACKENDS_FILE", Path, default=None),
        ollama_num_ctx=read.one("OLLAMA_NUM_CTX", _whole(512, 2**24), default=32768),
        openai_base_url=read.one("OPENAI_BASE_URL", _url("http", "https"), default=None),
        openai_api_key=read.one("OPENAI_API_KEY", str, default=None),
        openai_backends_file=read.one("OPENAI_BACKENDS_FILE", Path, default=None),
        openai_embedding_base_url=read.one(
            "OPENAI_EMBEDDING_BASE_URL", _url("http", "https"), default=None
        ),
        openai_embedding_api_key=read.one("OPENAI_EMBEDDING_API_KEY", str, default=None),
        context_window=read.one("NAVI_CONTEXT_WINDOW", _whole(512, 2**24), default=None),
        model_slots=read.one("NAVI_MODEL_SLOTS", _whole(1, 10_000), default=None),
        llm_first_chunk_timeout=read.one(
            "LLM_STREAM_FIRST_CHUNK_TIMEOUT", _number(0.05, 86_400), default=120.0
        ),
        llm_chunk_timeout=read.one("LLM_STREAM_CHUNK_TIMEOUT", _number(0.05, 86_400), default=None),
        compression_enabled=read.one("CONTEXT_COMPRESSION_ENABLED", _yes_or_no, default=True),
        compression_threshold=read.one(
            "CONTEXT_COMPRESSION_THRESHOLD", _number(0.05, 1.0), default=0.80
        ),
        keep_recent=read.one("CONTEXT_KEEP_RECENT", _whole(0, 10_000), default=10),
        summary_temperature=read.one("CONTEXT_SUMMARY_TEMPERATURE", _number(0, 2), default=0.3),
        files_max_size_mb=read.one("SESSION_FILES_MAX_SIZE_MB", _whole(1, 2**20), default=200),
        refused_suffixes=_suffixes(
            # Set to nothing is an answer, too: no suffix is refused.
            environment.get("SESSION_FILES_REFUSED_SUFFIXES", REFUSED_SUFFIXES)
        ),
        files_ttl_hours=read.one("SESSION_FILES_TTL_HOURS", _number(0.001, 10**6), default=24.0),
        log_partitions=read.one("NAVI_LOG_PARTITIONS", _whole(1, 256), default=1),
        stream_max_age_hours=read.one("NAVI_STREAM_MAX_AGE_HOURS", _whole(1, 10**6), default=168),
        drain_seconds=read.one("NAVI_DRAIN_SECONDS", _number(0, 86_400), default=30.0),
        failpoints=read.one("NAVI_FAILPOINTS", parse_failpoints, default=()),
        profiles_dir=read.one("NAVI_PROFILES_DIR", Path, default=data_dir / "profiles"),
        tools_dir=read.one("NAVI_TOOLS_DIR", Path, default=data_dir / "tools"),
        tools_env=read.one("NAVI_TOOLS_ENV", _variables, default=()),
        code_exec=read.one("NAVI_CODE_EXEC", _code_exec, default="auto"),
        code_packages_dir=read.one("NAVI_CODE_PACKAGES_DIR", Path, default=None),
        skills_dir=read.one("NAVI_SKILLS_DIR", Path, default=data_dir / "skills"),
        mcp_file=read.one("NAVI_MCP_FILE", Path, default=data_dir / "mcp.json"),
        ssh_file=read.one("NAVI_SSH_FILE", Path, default=data_dir / "ssh.json"),
        web_allow=read.one("NAVI_WEB_ALLOW", _web_allow, default=""),
        searxng_url=read.one("SEARXNG_URL", _url("http", "https"), default=None),
        allowed_hosts=read.one("NAVI_ALLOWED_HOSTS", _names, default=()),
        auth=read.one("NAVI_AUTH", _auth, default="none"),
        proxy_header=read.one("NAVI_PROXY_HEADER", _header, default="x-forwarded-user"),
        proxy_peers=read.one("NAVI_PROXY_PEERS", _networks, default=None),
        proxy_admins=read.one("NAVI_PROXY_ADMINS", _users, default=()),
        user_limits=_limits(read, DEFAULT_LIMITS),
        # Without accounts there is nobody to be fair to: only limits that were asked for hold.
        local_limits=_limits(read, NO_LIMITS),
        postgres_bin=read.one("NAVI_POSTGRES_BIN", Path, default=None),
        nats_bin=read.one("NAVI_NATS_BIN", Path, default=None),
        log_level=read.one("NAVI_LOG_LEVEL", _level, default="info"),
        navi_url=read.one("NAVI_URL", _navi_url, default=None),
        navi_token=read.one("NAVI_TOKEN", _token, default=None),
        secrets=secret_values(environment),
    )


def _check_path(name: str, path: str) -> None:
    if "\n" in path or "\r" in path:
        raise BadInput(name, "has a line break, and the programs of Postgres take none")
    if any("\udc80" <= sign <= "\udcff" for sign in path):  # how Python writes such bytes
        raise BadInput(name, "has bytes that are no UTF-8, and the addresses of servers take none")


def _with_token(url: str | None, token: str | None) -> str | None:
    """The address of NATS with a token that is not written in it, whatever signs that has."""
    if url is None or token is None or "@" in url:
        return url
    scheme, _, rest = url.partition("://")
    servers = (server.strip().rpartition("://")[2] for server in rest.split(","))
    return ",".join(f"{scheme}://{quote(token, safe='')}@{server}" for server in servers)


def _limits(read: "_Reader", default: Limits) -> Limits:
    return Limits(
        turns=read.one("NAVI_USER_TURNS", _whole(1, MAX_TURNS), default=default.turns),
        requests=read.one("NAVI_USER_REQUESTS", _whole(1, MAX_REQUESTS), default=default.requests),
        sockets=read.one("NAVI_USER_SOCKETS", _whole(1, MAX_SOCKETS), default=default.sockets),
        tokens=read.one("NAVI_USER_TOKENS", _whole(1, MAX_TOKENS), default=default.tokens),
    )


class _Reader:
    """Reads and validates one variable at a time; an empty value counts as not set."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def one(self, name: str, parse: Callable[[str], T], *, default: T) -> T:
        text = self._environment.get(name, "").strip()
        if not text:
            return default
        try:
            return parse(text)
        except ValueError as error:
            raise BadInput(name, str(error)) from error


def _whole(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a whole number") from None
        if not low <= value <= high:
            raise ValueError(f"{value} is not between {low} and {high}")
        return value

    return parse


def _processes(text: str) -> int | Literal["auto"]:
    if text.lower() == "auto":
        return "auto"
    if not text.lstrip("-").isdecimal():
        raise ValueError(f"{text!r} is neither a whole number nor auto")
    return _whole(1, MOST_PROCESSES)(text)


def _number(low: float, high: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a number") from None
        if not low <= value <= high:
            raise ValueError(f"{value:g} is not between {low:g} and {high:g}")
        return value

    return parse


def _yes_or_no(text: str) -> bool:
    if text.lower() in TRUE:
        return True
    if text.lower() in FALSE:
        return False
    raise ValueError(f"{text!r} is neither true nor false")


def _backend(text: str) -> Backend:
    match text.lower():
        case "auto" | "ollama" | "openai" | "demo" as backend:
            return backend
        case _:
            raise ValueError(f"{text!r} is none of auto, ollama, openai, demo")


def _auth(text: str) -> Auth:
    match text.lower():
        case "none" | "accounts" | "proxy" as wanted:
            return wanted
        case _:
            raise ValueError(f"{text!r} is none of none, accounts, proxy")


def _header(text: str) -> str:
    if _HEADER.fullmatch(text) is None:
        raise ValueError(f"{text!r} is no name of a header")
    return text.lower()


def _networks(text: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(part) for part in text.replace(",", " ").split())


def _users(text: str) -> tuple[str, ...]:
    # Names may have blanks in them: the comma parts them.
    try:
        return tuple(checked_name(part.strip()) for part in text.split(",") if part.strip())
    except BadInput as error:
        raise ValueError(f"a name {error.cause}") from error


def _code_exec(text: str) -> CodeExec:
    match text.lower():
        case "auto" | "off" as wanted:
            return wanted
        case _:
            raise ValueError(f"{text!r} is neither auto nor off")


def _level(text: str) -> str:
    if text.lower() in ("debug", "info", "warning", "error"):
        return text.lower()
    raise ValueError(f"{text!r} is none of debug, info, warning, error")


def _host(text: str) -> str:
    # Whether it is one of this machine's addresses shows when it is listened on.
    if _NO_HOST.search(text) or (_NUMBERS.fullmatch(text) and not _is_address(text)):
        raise ValueError(f"{text!r} is neither a host name nor an address")
    return text


def _suffixes(text: str) -> tuple[str, ...]:
    suffixes = tuple(text.lower().split())
    for suffix in suffixes:
        if not suffix.startswith(".") or len(suffix) < 2:
            raise BadInput(
                "SESSION_FILES_REFUSED_SUFFIXES", f"{suffix!r} is no suffix such as .exe"
            )
    return suffixes


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _web_allow(text: str) -> str:
    parse_allowed(text)  # says which entry is none; the process of a call reads it again
    return text


def _variables(text: str) -> tuple[str, ...]:
    names = tuple(text.split())
    for name in names:
        if _VARIABLE.fullmatch(name) is None:
            raise ValueError(f"{name!r} is no name of a variable; they are parted by blanks")
    return names


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip().lower() for name in text.split(",") if name.strip())
    for name in names:
        if _NAME.fullmatch(name) is None and not _is_address(name.strip("[]")):
            raise ValueError(
                f"{name!r} is neither a host name nor an address, alone and without a port"
            )
    return names


def _url(*schemes: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        scheme, separator, rest = text.partition("://")
        if not separator or scheme not in schemes or not rest:
            # Not the value itself: it may hold a password.
            raise ValueError(f"is not a URL that begins with {' or '.join(schemes)}://")
        return text

    return parse


def _navi_url(text: str) -> str:
    url = _url("http", "https")(text).rstrip("/")
    if "@" in url.partition("://")[2].partition("/")[0]:
        raise ValueError("holds a name or password; the token goes into NAVI_TOKEN")
    try:
        place = urlsplit(url)
        can_be = _host(place.hostname or "") and place.port != 0
    except ValueError:  # whose words repeat the value
        can_be = False
    if not can_be:
        raise ValueError("names a host or a port that cannot be one")
    return url


def _token(text: str) -> str:
    # It goes into a header; and a message must not show it.
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("is not a token")
    return text


def _ollama_host(text: str) -> str:
    """Ollama's own clients take ``host``, ``host:port`` and whole URLs; so does this."""
    url = text if "://" in text else f"http://{text}"
    scheme, _, rest = url.partition("://")
    if scheme not in ("http", "https") or not rest.strip("/"):
        raise ValueError(f"{text!r} is not a host or an http URL")
    host = rest.strip("/").partition("/")[0]
    has_port = ":" in host.rpartition("]")[2]
    return url.rstrip("/") if has_port or "://" in text else f"{url.rstrip('/')}:11434"
