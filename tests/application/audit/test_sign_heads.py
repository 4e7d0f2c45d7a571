"""Heads are signed as the log grows; what the log no longer holds afterwards shows."""

import asyncio
import resource
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from navi.adapters.files.heads_file import HeadsFile, all_heads
from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.in_memory.heads_bus import InMemoryHeadsBus
from navi.adapters.signing import verify_signature
from navi.application.audit import sign_heads
from navi.application.audit.restored import Lost, acknowledge, find_lost
from navi.application.audit.sign_heads import SignHeads
from navi.application.audit.verify_log import verify_log, verify_session
from navi.domain.log.heads import HeadsCheck, link_of
from navi.domain.log.verdict import Damage
from navi.domain.vocabulary.errors import BusUnavailable, LogDamaged, LogUnavailable
from navi.domain.vocabulary.ids import SessionId
from navi.ports.event_log import Recorded
from navi.ports.log_partitions import Page
from tests.contracts.event_log import batch, created, named, new_id
from tests.support.manual_clock import ManualClock
from tests.support.signing import signer_of

LOG = "0199aaaa-0000-7000-8000-000000000000"
AT = "2026-11-20T12:00:00.000000Z"


class OpenDoor:
    """A lock that a test opens and shuts, and takes away."""

    def __init__(self) -> None:
        self.is_open = True
        self.is_there = True

    async def acquire(self) -> bool:
        if not self.is_there:
            raise LogUnavailable("gone")
        return self.is_open

    def release(self) -> None:
        self.is_open = False


class TamperedLog(InMemoryEventLog):
    """A log in which somebody removes events behind navi's back; ``hole`` is a position left empty."""

    hole: int | None = None

    def keep(self, wanted: Callable[[Recorded], bool]) -> None:
        """Keep the rows that are wanted, at positions without a hole."""
        self._partitions = [
            [replace(row, position=n) for n, row in enumerate(filter(wanted, rows), 1)]
            for rows in self._partitions
        ]
        rows = [row for partition in self._partitions for row in partition]
        self._sessions = {
            session_id: [row for row in rows if row.session_id == session_id]
            for session_id in dict.fromkeys(row.session_id for row in rows)
        }

    async def read_all(
        self, partition: int, *, after: int, limit: int, deltas: bool = True
    ) -> Page:
        page = await super().read_all(partition, after=after, limit=limit, deltas=deltas)
        if self.hole is not None and after < self.hole <= page.reached:
            raise LogDamaged(f"position {partition}-{self.hole} is missing")
        return page


@contextmanager
def no_file_beyond(size: int) -> Generator[None, None, None]:
    """Let this process write no byte behind the first ``size`` of a file: what crosses them is cut off."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class Scene:
    """A log whose heads are signed into a file."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "heads.jsonl"
        self.log = TamperedLog()
        self.bus = InMemoryHeadsBus()
        self.door = OpenDoor()

    def signing(self, *, key: int = 1, log_id: str = LOG, path: Path | None = None) -> SignHeads:
        journal = HeadsFile(path or self.path, log_id=log_id)
        return SignHeads(
            self.log, journal, self.bus, signer_of(key), self.door, ManualClock(), log_id=log_id
        )

    @property
    def lines(self) -> list[bytes]:
        return BytesIO(self.path.read_bytes()).readlines() if self.path.exists() else []

    def heads(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(line) for line in self.lines]

    def signed(
        self, lines: Sequence[bytes] | None = None, *, trusted: int | Sequence[int] = 1
    ) -> HeadsCheck:
        chosen = self.lines if lines is None else lines
        signers = [trusted] if isinstance(trusted, int) else trusted
        keys = {signer_of(number).public_key for number in signers}
        return HeadsCheck(chosen, log_id=LOG, verify=verify_signature, trusted=keys)

    async def session(self, *names: str) -> SessionId:
        session_id = SessionId(new_id())
        await self.log.append(batch(session_id, 0, created(), *map(named, names)))
        return session_id


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


# --- signing ---


async def test_a_line_says_where_the_log_and_what_has_grown_stood(scene: Scene) -> None:
    first = await scene.session("a")
    signing = scene.signing()
    await signing.sign()
    second = await scene.session("b", "c")
    await signing.sign()
    await signing.sign()  # nothing new: no line

    [one, two] = await scene.log.sessions([first]), await scene.log.sessions([second])
    lines = scene.lines
    expected = [
        {
            "navi_head": 1,
            "log_id": LOG,
            "at": AT,
            "positions": {"0": 2},
            "sessions": {first: [2, one[0].hash.hex()]},
            "prev": "0" * 64,
            "public_key": signer_of().public_key,
        },
        {
            "navi_head": 1,
            "log_id": LOG,
            "at": AT,
            "positions": {"0": 5},
            "sessions": {second: [3, two[0].hash.hex()]},
            "prev": link_of(lines[0]),
            "public_key": signer_of().public_key,
        },
    ]
    heads = scene.heads()
    signatures = [head.pop("signature") for head in heads]
    assert heads == expected
    for line, signature in zip(lines, signatures, strict=True):
        text = line.rpartition(b',"signature"')[0]
        assert verify_signature(signer_of().public_key, bytes.fromhex(signature), text)
    assert scene.bus.lines == lines
    assert (await verify_log(scene.log, scene.signed())).ok


async def test_the_next_process_goes_on_where_the_file_ends(scene: Scene) -> None:
    await scene.session("a")
    await scene.signing().sign()
    await scene.session("b")

    await scene.signing().sign()

    assert [head["positions"] for head in scene.heads()] == [{"0": 2}, {"0": 4}]
    assert scene.bus.lines == scene.lines
    assert (await verify_log(scene.log, scene.signed())).ok


async def test_a_line_that_a_crash_cut_off_is_written_again(scene: Scene) -> None:
    await scene.session("a")
    await scene.signing().sign()
    whole = scene.path.read_bytes()
    await scene.session("b")
    await scene.signing().sign()
    scene.path.write_bytes(scene.path.read_bytes()[:-40])
    assert (await verify_log(scene.log, scene.signed())).ok

    await scene.signing().sign()

    assert scene.path.read_bytes().startswith(whole)
    assert [head["positions"] for head in scene.heads()] == [{"0": 2}, {"0": 4}]
    assert (await verify_log(scene.log, scene.signed())).ok


async def test_many_sessions_take_several_lines(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_heads, "MAX_SESSIONS", 3)
    sessions = [await scene.session("a") for _ in range(8)]

    await scene.signing().sign()

    heads = scene.heads()
    assert [len(head["sessions"]) for head in heads] == [3, 3, 2]
    assert [head["positions"]["0"] for head in heads] == [6, 12, 16]
    assert [name for head in heads for name in head["sessions"]] == sessions
    assert (await verify_log(scene.log, scene.signed())).ok


async def test_who_is_not_let_through_signs_nothing_until_it_is(scene: Scene) -> None:
    await scene.session("a")
    signing = scene.signing()
    scene.door.is_open = False
    await signing.sign()
    assert scene.lines == []
    scene.door.is_there = False
    with pytest.raises(LogUnavailable):
        await signing.sign()

    scene.door.is_open = scene.door.is_there = True
    await signing.sign()

    assert len(scene.lines) == 1


async def test_nats_gets_what_it_missed_when_it_is_back(scene: Scene) -> None:
    signing = scene.signing()
    await scene.session("a")
    await signing.sign()
    scene.bus.reachable = False
    for name in ("b", "c"):
        await scene.session(name)
        with pytest.raises(BusUnavailable):
            await signing.sign()

    scene.bus.reachable = True
    await signing.sign()

    assert len(scene.lines) == 3
    assert scene.bus.lines == scene.lines
    scene.bus.lines.clear()  # it lost everything
    await scene.signing().sign()
    assert scene.bus.lines == scene.lines


async def test_logs_that_share_a_file_have_chains_of_their_own(scene: Scene) -> None:
    await scene.session("a")
    await scene.signing().sign()
    other = Scene(scene.path.parent)
    await other.session("x")
    await other.signing(log_id=LOG.replace("aaaa", "bbbb")).sign()
    await scene.session("b")
    await scene.signing().sign()

    assert len(scene.lines) == 3
    assert (await verify_log(scene.log, scene.signed())).ok


async def sign_in_turns(scene: Scene, other: Path, *, reachable: bool = True) -> list[bytes]:
    """Two machines with files of their own sign one after another, three times; the other one's lines."""
    for key, path in ((1, scene.path), (2, other), (1, scene.path), (2, other)):
        await scene.session("a")
        scene.door.is_open = True
        signing = scene.signing(key=key, path=path)
        scene.bus.reachable = reachable
        if not reachable:
            with pytest.raises(BusUnavailable):
                await signing.sign()
            scene.bus.reachable = True
        await signing.sign()
        await scene.session("b")
        await signing.finish()
    return BytesIO(other.read_bytes()).readlines()


@pytest.mark.parametrize("reachable", [True, False], ids=["at once", "once NATS is there"])
async def test_machines_that_sign_in_turns_publish_every_line(
    scene: Scene, tmp_path: Path, reachable: bool
) -> None:
    theirs = await sign_in_turns(scene, tmp_path / "other.jsonl", reachable=reachable)

    assert len(scene.lines) == len(theirs) == 4
    ours = scene.lines
    assert scene.bus.lines == [*ours[:2], *theirs[:2], *ours[2:], *theirs[2:]]
    for lines in (scene.bus.lines, ours, theirs):
        assert (await verify_log(scene.log, scene.signed(lines, trusted=(1, 2)))).ok


async def test_a_line_that_is_missing_among_those_of_two_machines_shows(
    scene: Scene, tmp_path: Path
) -> None:
    await sign_in_turns(scene, tmp_path / "other.jsonl")

    for missing in (
        0,
        1,
        2,
        3,
        4,
        6,
    ):  # 5 and 7 are the last of their chains: nothing hangs on them
        lines = [line for at, line in enumerate(scene.bus.lines) if at != missing]
        [problem] = scene.signed(lines, trusted=(1, 2)).problems
        assert "does not follow the line before it" in problem.reason


async def test_a_machine_that_has_just_begun_takes_back_nothing_that_was_signed(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_heads, "MAX_SESSIONS", 2)
    for name in "abc":
        await scene.session(name)
    await scene.signing().sign()
    scene.door.is_open = True
    await scene.signing(key=2, path=tmp_path / "other.jsonl").sign()
    lines = scene.bus.lines[:-1]  # it was killed on its way

    assert scene.signed(lines, trusted=(1, 2)).positions == {"0": 6}


async def test_a_chain_goes_on_under_another_key(scene: Scene) -> None:
    for key in (1, 2, 1):
        await scene.session("a")
        await scene.signing(key=key).sign()

    assert (await verify_log(scene.log, scene.signed(trusted=(1, 2)))).ok


async def test_the_last_line_is_written_at_the_end(scene: Scene) -> None:
    signing = scene.signing()
    task = asyncio.create_task(signing.run())
    try:
        async with asyncio.timeout(60):
            await scene.session("a")
            while not scene.lines:  # noqa: ASYNC110  # it is a file
                await asyncio.sleep(0.01)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await scene.session("b")

    await signing.finish()

    assert scene.heads()[-1]["positions"] == {"0": 4}
    assert not scene.door.is_open


async def test_a_process_ends_well_where_the_log_has_a_hole(scene: Scene) -> None:
    signing = scene.signing()
    await scene.session("a")
    await signing.sign()
    await scene.session("b")
    scene.log.hole = 4

    await signing.finish()

    assert [head["positions"] for head in scene.heads()] == [{"0": 2}]
    assert not scene.door.is_open


async def test_a_line_that_the_disk_had_no_room_for_is_written_again(scene: Scene) -> None:
    signing = scene.signing()
    await scene.session("a")
    await signing.sign()
    await scene.session("b")

    with no_file_beyond(scene.path.stat().st_size + 100), pytest.raises(OSError, match="space"):
        await signing.sign()
    await signing.sign()

    assert scene.signed().problems == []
    assert [head["positions"] for head in scene.heads()] == [{"0": 2}, {"0": 4}]
    assert scene.bus.lines == scene.lines


# --- holding the log against it ---


async def signed(scene: Scene) -> tuple[SessionId, SessionId]:
    """Two sessions of three events, signed at two and at three events each."""
    signing = scene.signing()
    first, second = await scene.session("a"), await scene.session("a")
    await signing.sign()
    for session_id in (first, second):
        await scene.log.append(batch(session_id, 2, named("b")))
    await signing.sign()
    return first, second


async def test_a_tail_that_was_cut_off_shows(scene: Scene) -> None:
    first, second = await signed(scene)
    scene.log.keep(lambda row: (row.session_id, row.seq) != (second, 3))

    verdict = await verify_log(scene.log, scene.signed())
    alone = await verify_session(scene.log, second, scene.signed())

    cut = Damage(session_id=second, seq=3, reason=f"cut off: the session went up to seq 3 at {AT}")
    log = Damage(
        session_id=None, seq=None, reason="the log ends at position 0-5 and was signed up to 0-6"
    )
    assert verdict.problems == (cut, log)
    assert alone.problems == (cut,)
    assert (await verify_session(scene.log, first, scene.signed())).ok


async def test_a_session_that_was_removed_shows(scene: Scene) -> None:
    _, second = await signed(scene)
    scene.log.keep(lambda row: row.session_id != second)

    verdict = await verify_log(scene.log, scene.signed())

    reason = f"removed: the session went up to seq 3 at {AT}"
    assert verdict.problems[0] == Damage(session_id=second, seq=1, reason=reason)
    alone = await verify_session(scene.log, second, scene.signed())
    assert alone.problems == (Damage(session_id=second, seq=1, reason=reason),)


async def test_a_history_that_was_written_anew_shows_where_it_departs(scene: Scene) -> None:
    first, second = await signed(scene)
    log = InMemoryEventLog()
    for session_id in (first, second):  # chains that hold, with salts of their own
        await log.append(batch(session_id, 0, created(), named("a"), named("b")))

    verdict = await verify_log(log, scene.signed())

    assert [(p.session_id, p.seq) for p in verdict.problems] == [(first, 1), (second, 1)]
    assert verdict.problems[0].reason == f"seq 1 to 2 are not what was signed at {AT}"


LINES: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "changed": lambda lines: [lines[0].replace(b'"0":4', b'"0":3'), lines[1]],
    "signature": lambda lines: [
        lines[0].replace(b'"signature":"', b'"signature":"0')[:-4] + b'"}\n',
        lines[1],
    ],
    "removed": lambda lines: lines[1:],
    "swapped": lambda lines: lines[::-1],
    "junk": lambda lines: [b"junk\n", *lines],
    "more fields": lambda lines: [lines[0][:-2] + b',"x":1}\n', lines[1]],
    "nesting": lambda lines: [b"[" * 10_000 + b"\n", *lines],
}


@pytest.mark.parametrize("kind", LINES)
async def test_heads_that_were_tampered_with_show(scene: Scene, kind: str) -> None:
    await signed(scene)

    verdict = await verify_log(scene.log, scene.signed(LINES[kind](scene.lines)))

    assert not verdict.ok
    assert "of the signed heads" in verdict.problems[0].reason


async def test_heads_of_somebody_who_is_not_trusted_show(scene: Scene) -> None:
    await signed(scene)

    verdict = await verify_log(scene.log, scene.signed(trusted=2))

    assert "signed by a key that is not known" in verdict.problems[0].reason


# --- an older state that was put back ---


async def acknowledge_restore(scene: Scene) -> Lost:
    lost = await find_lost(scene.log, scene.signed().ends(), scene.signed().positions)
    journal = HeadsFile(scene.path, log_id=LOG)
    await acknowledge(journal, lost, log_id=LOG, clock=ManualClock(), signer=signer_of(1))
    return lost


@pytest.mark.parametrize("grows_first", [False, True], ids=["at once", "after it has grown again"])
async def test_what_was_put_back_is_signed_only_once_that_is_acknowledged(
    scene: Scene, grows_first: bool
) -> None:
    first, second = await signed(scene)
    third = await scene.session("a")
    await scene.signing().sign()
    scene.log.keep(lambda row: row.session_id != third and (row.session_id, row.seq) != (second, 3))
    if grows_first:  # beyond what was signed, and not as it was
        for name in "cdefgh":
            [head] = await scene.log.sessions([second])
            await scene.log.append(batch(second, head.seq, named(name)))
    before = len(scene.lines)
    signing = scene.signing()
    scene.door.is_open = True
    await signing.sign()
    assert (len(scene.lines), scene.door.is_open) == (before, False)
    assert not (await verify_log(scene.log, scene.signed())).ok

    lost = await acknowledge_restore(scene)
    scene.door.is_open = True
    await scene.session("new")
    await signing.sign()

    assert set(lost.sessions) == {second, third}
    assert lost.sessions[third] == (0, "0" * 64)
    assert (await verify_log(scene.log, scene.signed())).problems == ()
    assert [head.sessions for head in scene.signed().restored] == [lost.sessions]
    scene.log.keep(lambda row: (row.session_id, row.seq) != (first, 3))
    cut = await verify_session(scene.log, first, scene.signed())
    assert [(p.session_id, p.seq) for p in cut.problems] == [(first, 3)]


async def test_a_log_that_has_all_that_was_signed_has_nothing_to_acknowledge(scene: Scene) -> None:
    await signed(scene)
    await scene.session("later")

    lost = await find_lost(scene.log, scene.signed().ends(), scene.signed().positions)

    assert lost.is_nothing


async def test_of_a_log_that_goes_back_in_one_partition_nothing_is_signed_in_the_others(
    scene: Scene,
) -> None:
    scene.log = TamperedLog(partitions=2)
    signing = scene.signing()
    in_partition: dict[int, SessionId] = {}
    while len(in_partition) < 2:
        session_id = await scene.session("a")
        [rows] = [rows async for rows in scene.log.read(session_id)]
        in_partition[rows[0].partition] = session_id
    await signing.sign()
    before = scene.lines
    scene.log.keep(lambda row: (row.session_id, row.seq) != (in_partition[0], 2))
    await scene.log.append(batch(in_partition[1], 2, named("b")))

    for _ in range(2):  # it finds that out, and then stays away
        await signing.sign()

    assert scene.lines == before
    assert not scene.door.is_open


# --- its length ---


async def test_a_long_file_is_begun_anew_and_says_no_less(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_heads, "FULL_BYTES", 1_000)
    monkeypatch.setattr(sign_heads, "MUCH_LONGER", 0)
    monkeypatch.setattr(sign_heads, "MAX_SESSIONS", 3)
    signing = scene.signing()
    sessions: list[SessionId] = []
    for _ in range(12):
        sessions.append(await scene.session("a"))
        await signing.sign()

    before = scene.path.with_name("heads.1.jsonl").read_bytes()
    every = await asyncio.to_thread(lambda: list(all_heads(scene.path)))
    alone, both = scene.signed(), scene.signed(every)
    for check in (alone, both):
        assert set(check.ends()) == set(sessions)
        assert (await verify_log(scene.log, check)).problems == ()
    assert len(before) + len(scene.path.read_bytes()) < 10_000
    assert scene.bus.lines[-len(scene.lines) :] == scene.lines
    scene.log.keep(lambda row: row.session_id != sessions[0])
    assert not (await verify_log(scene.log, scene.signed())).ok
    # Whoever takes the beginning away shows: only a first line may follow one that is not there.
    assert not (await verify_log(scene.log, scene.signed(scene.lines[1:]))).ok


async def test_who_reads_while_lines_are_begun_anew_reads_every_line(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_heads, "FULL_BYTES", 1)  # each line is too much
    monkeypatch.setattr(sign_heads, "MUCH_LONGER", 0)
    signing = scene.signing()
    await scene.session("a")
    await signing.sign()
    await scene.session("b")

    reading = all_heads(scene.path)
    first = await asyncio.to_thread(lambda: next(reading))
    await signing.sign()
    lines = [first, *await asyncio.to_thread(lambda: list(reading))]

    assert lines == scene.bus.lines[:3]
    assert scene.signed(lines).problems == []


async def test_lines_that_were_begun_anew_are_published_by_the_next_process(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        await scene.session(name)
        await scene.signing().sign()
    monkeypatch.setattr(sign_heads, "FULL_BYTES", 1)
    monkeypatch.setattr(sign_heads, "MUCH_LONGER", 0)
    await scene.signing().sign()
    del scene.bus.lines[2:]  # it was killed before it had published them
    monkeypatch.undo()

    await scene.session("c")
    await scene.signing().sign()

    assert scene.bus.lines[2:] == scene.lines
    assert scene.signed(scene.bus.lines).problems == []
