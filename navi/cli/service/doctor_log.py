"""What ``navi doctor`` looks at in the log: its place on NATS, its signed heads, the files of its nodes."""

import asyncio
from collections.abc import Sequence

from navi.adapters.files.heads_file import FILE_NAME as HEADS_FILE
from navi.adapters.files.heads_file import last_head
from navi.adapters.nats.connect import connect
from navi.application.audit.restored import is_restored
from navi.application.followers.relay import place_of
from navi.bootstrap.log_ports import relay_stream
from navi.bootstrap.shared_files import not_shared
from navi.bootstrap.store import Attached, Store, store_on
from navi.cli.service.finding import Finding
from navi.domain.log.heads import SignedHead
from navi.domain.log.subjects import format_position
from navi.domain.vocabulary.errors import BusUnavailable, LogUnavailable, NaviError, StreamRefused
from navi.settings import Settings

NATS_SECONDS = 6.0  # for a connection
BEHIND = 1_000  # events that NATS may lack without a word
UNSIGNED = 10_000  # events behind the last signed line, likewise


async def log_findings(settings: Settings, servers: Attached) -> list[Finding]:
    """Look at the log of servers that answer, whose migrations are all applied."""
    try:
        async with store_on(servers) as store:
            return [
                await _heads(settings, store),
                await _files(settings, store),
                *await _streams(servers, store),
            ]
    except LogUnavailable as error:
        return [Finding(name="log", state="fail", text=str(error))]


async def _heads(settings: Settings, store: Store) -> Finding:
    # Not by the journal itself, which would mend the file under a navi that writes to it.
    last = await asyncio.to_thread(last_head, settings.data_dir / HEADS_FILE, store.log.log_id)
    head = None if last is None else last[0]
    if head is not None and await is_restored(store.log, head):
        text = (
            f"the log is not the one that was signed at {head.at}: an older state of the database was "
            "put back, and nothing is signed any more. `navi restored` acknowledges it"
        )
        return Finding(name="heads", state="fail", text=text)
    ends = [
        (await store.log.read_all(number, after=0, limit=1)).head
        for number in range(store.log.partitions)
    ]
    return signed_finding(head, ends)


def signed_finding(head: SignedHead | None, ends: Sequence[int]) -> Finding:
    """How far the log is signed.

    Args:
        head: the last line of it in the data directory.
        ends: the last position of each partition.
    """
    if head is None:
        text = "nothing of this log is signed here yet"
        behind = sum(ends)
        if behind > UNSIGNED:
            text = (
                f"none of its {behind:,} events is signed in this data directory: another node does, or "
                "heads.jsonl is gone"
            )
    else:
        signed = sum(min(head.positions.get(str(n), 0), end) for n, end in enumerate(ends))
        behind = sum(ends) - signed
        text = f"signed up to {head.at}, {behind:,} events since"
    return Finding(name="heads", state="warn" if behind > UNSIGNED else "ok", text=text)


async def _files(settings: Settings, store: Store) -> Finding:
    trouble = await not_shared(settings, store.nodes)
    if trouble is not None:
        return Finding(name="files", state="fail", text=trouble)
    return Finding(name="files", state="ok", text="are those of all nodes that run")


async def _streams(servers: Attached, store: Store) -> Sequence[Finding]:
    assert servers.nats_url is not None  # noqa: S101 - asked for
    async with connect(servers.nats_url, name="navi doctor") as nats:
        try:
            async with asyncio.timeout(NATS_SECONDS):
                while nats.trouble is not None:  # noqa: ASYNC110 - a value, looked at a few times
                    await asyncio.sleep(0.02)
        except TimeoutError:
            return ()  # that it does not answer is told as NATS
        stream = relay_stream(store, nats)
        found: list[Finding] = []
        for number in range(store.log.partitions):
            try:
                place, head = await place_of(store.log, stream, number)
            except StreamRefused as error:
                found.append(Finding(name="stream", state="fail", text=str(error)))
            except BusUnavailable as error:
                found.append(Finding(name="stream", state="warn", text=str(error)))
            except NaviError as error:
                found.append(Finding(name="log", state="fail", text=str(error)))
            else:
                text = f"ends at {format_position(number, place)}, {head - place:,} events behind"
                state = "warn" if head - place > BEHIND else "ok"
                found.append(Finding(name="stream", state=state, text=text))
        return found
