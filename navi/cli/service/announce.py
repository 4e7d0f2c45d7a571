"""Announce a node that takes work: its addresses, its model, the link for its first user."""

from navi import __version__
from navi.adapters.postgres.examine import examine, name_of
from navi.adapters.processes.channel import Ready
from navi.bootstrap.node import Node
from navi.cli.shared.model import Model, model_in_use
from navi.domain.vocabulary.errors import BusUnavailable

NATS_SECONDS = 1.0  # for its version in the banner


async def ready_of(node: Node, url: str) -> Ready:
    """What is told of a node that serves at an address."""
    model = await model_in_use(node.models)
    return Ready(
        node=node.id,
        banner=await _banner(node, url, model),
        model_backend=model.backend,
        model_name=model.name,
        model_window=None if model.known is None else model.known.context_window,
        model_slots=None if model.known is None else model.known.slots,
    )


def setup_words(url: str, token: str) -> str:
    """The link that makes the first user."""
    # Behind the hash: browsers send that to nobody.
    return f"There is no user yet. Make the first one, an admin:\n\n  {url}/setup#token={token}\n"


async def _banner(node: Node, url: str, model: Model) -> str:
    """Print the start-up banner: address, model, data directory."""
    settings = node.settings
    found = await examine(node.store.database_url)
    postgres = "embedded" if settings.database_url is None else name_of(settings.database_url)
    nats = "embedded" if settings.nats_url is None else "given"
    lines = (
        ("chat", f"{url}  (Ctrl-C ends)"),
        ("model", f"{model.words} ({node.models.reason})"),
        ("data", str(settings.data_dir)),
        ("Postgres", f"{found.version} ({postgres})"),
        ("NATS", f"{await _nats(node)} ({nats})"),
    )
    body = "\n".join(f"  {name:<9} {text}" for name, text in lines)
    return f"\nnavi {__version__} is ready\n{body}\n"


async def _nats(node: Node) -> str:
    try:
        async with node.nats.borrow(seconds=NATS_SECONDS) as client:
            version = client.connected_server_version
    except BusUnavailable:
        return "not reachable yet, chat works without it"
    return f"{version.major}.{version.minor}.{version.patch}"
