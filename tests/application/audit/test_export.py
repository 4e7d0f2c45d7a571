"""Exports are whole, say what they are, and come back as they were; whatever was changed shows."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from io import BytesIO
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from navi.adapters.in_memory.event_log import InMemoryEventLog
from navi.adapters.in_memory.text_store import InMemoryTextStore
from navi.adapters.signing import verify_signature
from navi.application.audit.export_sessions import ExportSessions
from navi.application.audit.import_sessions import ImportSessions, Sound
from navi.domain.log.check_export import check_export
from navi.domain.log.erasure import without_words
from navi.domain.log.export import signed_text
from navi.domain.log.hash_chain import digest_of, hash_of
from navi.domain.log.verdict import Damage, Verdict
from navi.domain.vocabulary.errors import AlreadyThere, ExportDamaged, ExportTooLarge, NotFound
from navi.domain.vocabulary.events import (
    AgentEvent,
    ApprovalDecided,
    ApprovalRequested,
    MessageDelivered,
    ModelCalled,
    ModelReplied,
    Origin,
    SessionCreated,
    SessionDeleted,
    TextDelta,
    ToolCall,
    TurnStarted,
    TurnStopped,
    UnknownEvent,
    Usage,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import CallId, MessageId, NodeId, SessionId, TurnId
from navi.ports.event_log import Append
from tests.contracts.event_log import ANNA, batch, created, joined, named, new_event, new_id
from tests.support.manual_clock import ManualClock
from tests.support.signing import signer_of

LOG = "0199aaaa-0000-7000-8000-000000000000"
Lines = list[bytes]


class Place:
    """A log and what is kept beside it."""

    def __init__(self) -> None:
        self.log = InMemoryEventLog()
        self.texts = InMemoryTextStore()

    async def export(self, *sessions: SessionId, key: int = 1) -> Lines:
        exporting = ExportSessions(
            self.log, self.texts, signer_of(key), ManualClock(), log_id=LOG, version="0.1.0"
        )
        pieces = [piece async for piece in exporting.export(sessions or None)]
        return lines_in(b"".join(pieces))

    async def import_(self, lines: Lines) -> Sequence[SessionId]:
        return (
            await ImportSessions(self.log, self.texts, verify_signature).import_(lambda: lines)
        ).sessions

    async def looked_at(self, lines: Lines) -> Sound:
        return await ImportSessions(self.log, self.texts, verify_signature).look(lambda: lines)

    async def is_empty(self) -> bool:
        return (
            not await self.log.sessions()
            and (await self.log.read_all(0, after=0, limit=1)).head == 0
        )


def called(system: str | None, tools: str | None, tail: str | None) -> ModelCalled:
    return ModelCalled(
        call_id=CallId("c1"),
        purpose="turn",
        model="demo",
        backend="demo",
        iteration=1,
        request_sha256="0" * 64,
        context_seq=1,
        system_sha256=system,
        tools_sha256=tools,
        options={},
        renderer="1",
        tail_sha256=msgspec.UNSET if tail is None else tail,
    )


def forked(origin: SessionId, seq: int) -> SessionCreated:
    return SessionCreated(
        profile_id="default", owner=ANNA, forked_from=Origin(session_id=origin, seq=seq)
    )


@pytest.fixture
def home() -> Place:
    return Place()


async def session_in(place: Place) -> SessionId:
    session_id = SessionId(new_id())
    (text,) = await place.texts.put("You are navi. \u0000 Grüße")
    events = [created(), named("one"), called(text, None, text), named("two"), named("three")]
    await place.log.append(batch(session_id, 0, *events))
    return session_id


async def family_in(place: Place) -> tuple[SessionId, SessionId, SessionId]:
    """A session of five events, a fork of it at 3, and a fork of that one at 4."""
    origin = await session_in(place)
    fork, fork_of_fork = SessionId(new_id()), SessionId(new_id())
    await place.log.append(batch(fork, 3, forked(origin, 3), named("f")))
    await place.log.append(batch(fork_of_fork, 4, forked(fork, 4), named("ff")))
    return origin, fork, fork_of_fork


def verdict_on(lines: Iterable[bytes]) -> Verdict:
    return check_export(lines, verify_signature).verdict


def sealed(lines: Lines, key: int = 1) -> Lines:
    """The lines with an end that signs them: what somebody does who has a key of his own."""
    signer = signer_of(key)
    header = msgspec.json.decode(lines[0]) | {"public_key": signer.public_key}
    body = [msgspec.json.encode(header) + b"\n", *lines[1:-1]]
    name = sha256(b"".join(body)).hexdigest()
    end: dict[str, Any] = {
        "navi_export_end": 1,
        "events": len(body) - 1,
        "sha256": name,
        "public_key": signer.public_key,
        "signature": signer.sign(signed_text(name)).hex(),
    }
    return [*body, msgspec.json.encode(end) + b"\n"]


# --- what an export is ---


async def test_an_export_begins_with_what_it_holds_and_ends_with_its_signature(home: Place) -> None:
    session_id = await session_in(home)
    rows = await joined(home.log.read(session_id))

    lines = await home.export(session_id)

    text = "You are navi. \u0000 Grüße"
    assert msgspec.json.decode(lines[0]) == {
        "navi_export": 1,
        "log_id": LOG,
        "navi_version": "0.1.0",
        "made_at": "2026-11-20T12:00:00.000000Z",
        "public_key": signer_of().public_key,
        "sessions": [
            {
                "session_id": session_id,
                "owner": "anna",
                "first_seq": 1,
                "last_seq": 5,
                "hash": rows[-1].hash.hex(),
                "forked_from": None,
                "ancestor": False,
            }
        ],
        "texts": {sha256(text.encode()).hexdigest(): text},
    }
    assert [msgspec.json.decode(line) for line in lines[1:-1]] == [
        msgspec.json.decode(row.wire)
        | {
            "salt": row.salt and row.salt.hex(),
            "digest": row.digest.hex(),
            "hash": row.hash.hex(),
        }
        for row in rows
    ]
    end = msgspec.json.decode(lines[-1])
    assert (end["navi_export_end"], end["events"]) == (1, 5)
    assert end["sha256"] == sha256(b"".join(lines[:-1])).hexdigest()
    assert verify_signature(
        end["public_key"], bytes.fromhex(end["signature"]), signed_text(end["sha256"])
    )
    assert verdict_on(lines) == Verdict(ok=True, sessions=1, events=5, problems=())


async def test_the_line_of_an_event_is_its_envelope_byte_for_byte(home: Place) -> None:
    session_id = await session_in(home)

    lines = await home.export(session_id)

    rows = await joined(home.log.read(session_id))
    assert [line.rpartition(b',"salt":')[0] + b"}" for line in lines[1:-1]] == [
        row.wire for row in rows
    ]


async def test_a_session_that_is_not_there_is_not_exported(home: Place) -> None:
    with pytest.raises(NotFound):
        await home.export(SessionId(new_id()))
    with pytest.raises(NotFound):
        await home.export()


async def test_what_comes_during_an_export_is_not_in_it(home: Place) -> None:
    session_id = await session_in(home)
    exporting = ExportSessions(
        home.log, home.texts, signer_of(), ManualClock(), log_id=LOG, version="0.1.0"
    )

    pieces: list[bytes] = []
    async for piece in exporting.export([session_id]):
        pieces.append(piece)
        await home.log.append(batch(session_id, 4 + len(pieces), named("later")))

    verdict = verdict_on(lines_in(b"".join(pieces)))
    assert verdict == Verdict(ok=True, sessions=1, events=5, problems=())


@pytest.mark.parametrize("what", ["line", "texts"])
async def test_what_its_own_check_would_refuse_is_not_exported(
    home: Place, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    def allow(header_bytes: int) -> None:
        for module in ("domain.log.check_export", "application.audit.export_sessions"):
            monkeypatch.setattr(f"navi.{module}.MAX_HEADER_BYTES", header_bytes)

    session_id = await session_in(home)
    lines = await home.export(session_id)
    texts = "".join(msgspec.json.decode(lines[0])["texts"].values())
    size = {"line": len(lines[0]), "texts": len(texts.encode())}[what]
    allow(size - 1)
    assert not verdict_on(lines).ok

    exporting = ExportSessions(
        home.log, home.texts, signer_of(), ManualClock(), log_id=LOG, version="0.1.0"
    )
    with pytest.raises(ExportTooLarge, match="fewer sessions at a time"):
        await anext(exporting.export([session_id]))  # not one byte

    allow(len(lines[0]))
    assert verdict_on(await home.export(session_id)).ok


# --- there and back ---


async def test_an_import_keeps_every_byte(home: Place) -> None:
    there = Place()
    sessions = (await session_in(home), *await family_in(home))
    lines = await home.export()

    imported = await there.import_(lines)

    assert sorted(imported) == sorted(sessions)
    for session_id in sessions:
        before = await joined(home.log.read(session_id))
        after = await joined(there.log.read(session_id))
        assert [(row.wire, row.salt, row.digest, row.hash, row.owner) for row in after] == [
            (row.wire, row.salt, row.digest, row.hash, row.owner) for row in before
        ]
    assert (await there.export())[1:-1] == lines[1:-1]
    page = await there.log.read_all(0, after=0, limit=100)
    assert [row.position for row in page.rows] == list(range(1, 15))
    text = msgspec.json.decode(lines[0])["texts"]
    assert {name: await there.texts.get(name) for name in text} == text


async def test_a_fork_brings_its_origins_as_far_as_it_needs_them(home: Place) -> None:
    there = Place()
    origin, fork, fork_of_fork = await family_in(home)

    lines = await home.export(fork_of_fork)
    await there.import_(lines)

    manifest = msgspec.json.decode(lines[0])["sessions"]
    assert [(s["session_id"], s["first_seq"], s["last_seq"], s["ancestor"]) for s in manifest] == [
        (origin, 1, 3, True),
        (fork, 4, 4, True),
        (fork_of_fork, 5, 6, False),
    ]
    assert [await there.log.head(one) for one in (origin, fork, fork_of_fork)] == [3, 4, 6]
    before = await joined(home.log.read(fork_of_fork))
    assert [row.wire for row in await joined(there.log.read(fork_of_fork))] == [
        row.wire for row in before
    ]


async def test_a_fork_below_what_its_origin_shares_needs_the_origins_origin_alone(
    home: Place,
) -> None:
    there = Place()
    origin, fork, _ = await family_in(home)
    low = SessionId(new_id())
    await home.log.append(batch(low, 2, forked(fork, 2), named("low")))

    lines = await home.export(low)
    await there.import_(lines)

    manifest = msgspec.json.decode(lines[0])["sessions"]
    assert [s["session_id"] for s in manifest] == [origin, low]
    assert manifest[1]["forked_from"] == {"session_id": origin, "seq": 2}
    assert [row.wire for row in await joined(there.log.read(low))] == [
        row.wire for row in await joined(home.log.read(low))
    ]


async def test_an_ancestor_that_is_there_already_stays_as_it_is(home: Place) -> None:
    there = Place()
    origin, fork, fork_of_fork = await family_in(home)
    await there.import_(await home.export(origin))

    imported = await there.import_(await home.export(fork_of_fork))

    assert imported == (fork, fork_of_fork)
    assert await there.log.head(origin) == 5


async def test_an_ancestor_that_is_another_here_is_refused(home: Place) -> None:
    there = Place()
    origin, fork, _ = await family_in(home)
    await there.log.append(batch(origin, 0, created(), named("x"), named("y"), named("z")))

    with pytest.raises(AlreadyThere, match=origin):
        await there.import_(await home.export(fork))

    assert len(await there.log.sessions()) == 1


async def test_what_is_there_already_is_refused_by_name(home: Place) -> None:
    first, second = await session_in(home), await session_in(home)
    there = Place()
    await there.import_(await home.export(second))

    with pytest.raises(AlreadyThere, match=second):
        await there.import_(await home.export(first, second))

    assert [head.session_id for head in await there.log.sessions()] == [second]


async def test_a_session_goes_on_after_its_import(home: Place) -> None:
    there = Place()
    session_id = await session_in(home)
    await there.import_(await home.export(session_id))

    await there.log.append(batch(session_id, 5, named("here")))

    assert verdict_on(await there.export(session_id)).ok


async def test_pruned_and_erased_events_are_exported_as_they_are_stored(home: Place) -> None:
    there = Place()
    session_id = SessionId(new_id())
    delta = TextDelta(call_id=CallId("c1"), text="secret")
    await home.log.append(batch(session_id, 0, created(), delta, named("secret")))
    rows = await joined(home.log.read(session_id))
    await home.log.erase(
        session_id, {row.seq: without_words(row.type, row.data) for row in rows[1:]}
    )

    lines = await home.export(session_id)
    await there.import_(lines)

    assert verdict_on(lines).ok
    assert b"secret" not in b"".join(lines)
    assert [msgspec.json.decode(line)["salt"] for line in lines[2:-1]] == [None, None]
    assert (await there.export(session_id))[1:-1] == lines[1:-1]


async def test_a_file_that_changes_between_check_and_import_leaves_nothing(home: Place) -> None:
    there = Place()
    one, other = await session_in(home), await session_in(home)
    readings = [await home.export(one), await home.export(other)]

    with pytest.raises(ExportDamaged, match="changed meanwhile"):
        await ImportSessions(there.log, there.texts, verify_signature).import_(
            lambda: readings.pop(0)
        )

    assert await there.is_empty()


# --- what would go on by itself ---

T1 = TurnId("0199bbbb-0000-7000-8000-000000000000")
SPOKE = UserMessageReceived(message_id=MessageId("m1"), content="copy it")
OPENED = (SPOKE, TurnStarted(node=NodeId("n")), MessageDelivered(message_seq=2))
ASKED = ApprovalRequested(
    call_id=CallId("t1"), name="ssh", arguments={}, reason="", preview="", rule="{}"
)
ALLOWED = ApprovalDecided(call_id=CallId("t1"), decision="allow", scope="session", by="eve")
CALLED = (
    called(None, None, None),
    ModelReplied(
        call_id=CallId("c1"),
        content="",
        thinking="",
        tool_calls=(ToolCall(id=CallId("t1"), name="ssh", arguments={}),),
        finish_reason="stop",
        usage=Usage(),
        duration_ms=1,
        first_chunk_ms=1,
    ),
)
ENDED = TurnStopped(by="user")
AGAIN = UserMessageReceived(message_id=MessageId("m2"), content="once more")


@pytest.mark.parametrize(
    ("events", "goes_on"),
    [
        ((), False),
        ((SPOKE,), False),
        (OPENED, False),
        ((*OPENED, *CALLED, ASKED), False),
        ((*OPENED, *CALLED, ASKED, replace(ALLOWED, scope="once")), True),
        ((*OPENED, *CALLED, ASKED, replace(ALLOWED, scope="once", decision="deny")), False),
        ((*OPENED, *CALLED, ASKED, ALLOWED), True),
        ((*OPENED, *CALLED, ASKED, ALLOWED, ENDED), False),
        ((*OPENED, *CALLED, ASKED, ALLOWED, ENDED, AGAIN), True),
        ((*OPENED, *CALLED, ASKED, replace(ALLOWED, decision="deny"), ENDED, AGAIN), False),
        ((*OPENED, SessionDeleted()), False),
    ],
)
async def test_a_look_tells_what_would_go_on_with_what_was_allowed_and_writes_nothing(
    home: Place, events: Sequence[AgentEvent], goes_on: bool
) -> None:
    there = Place()
    session_id = SessionId(new_id())
    all_ = [replace(new_event(each), turn_id=T1) for each in (created(), *events)]
    await home.log.append(Append(session_id=session_id, owner=ANNA, expected=0, events=tuple(all_)))
    lines = await home.export(session_id)

    looked = await there.looked_at(lines)

    assert looked.going_on == ((session_id,) if goes_on else ())
    assert looked.header.public_key == signer_of().public_key
    assert await there.is_empty()


async def test_a_fork_goes_on_with_what_was_open_where_it_begins(home: Place) -> None:
    there = Place()
    origin, fork = SessionId(new_id()), SessionId(new_id())
    events = (created(), *OPENED, *CALLED, ASKED, replace(ALLOWED, scope="once"), ENDED)
    all_ = [replace(new_event(each), turn_id=T1) for each in events]
    await home.log.append(Append(session_id=origin, owner=ANNA, expected=0, events=tuple(all_)))
    await home.log.append(batch(fork, len(all_) - 1, forked(origin, len(all_) - 1)))
    await there.import_(await home.export(origin))

    looked = await there.looked_at(await home.export(fork))

    assert looked.going_on == (fork,)


# --- tampering ---


def changed(lines: Lines, nth: int, old: bytes, new: bytes) -> Lines:
    assert old in lines[nth]
    return [*lines[:nth], lines[nth].replace(old, new, 1), *lines[nth + 1 :]]


def without(lines: Lines, nth: int) -> Lines:
    return [*lines[:nth], *lines[nth + 1 :]]


def doubled(lines: Lines, nth: int) -> Lines:
    return [*lines[: nth + 1], *lines[nth:]]


def resalted(line: bytes) -> bytes:
    head, _, tail = line.partition(b'"salt":"')
    return b'%b"salt":"%b%b' % (head, b"0" * 32, tail[32:])


def swapped(lines: Lines, nth: int) -> Lines:
    return [*lines[:nth], lines[nth + 1], lines[nth], *lines[nth + 2 :]]


# Line n holds seq n; what is done to it, and the first seq that is bad then.
TAMPERED: dict[str, tuple[Callable[[Lines], Lines], int]] = {
    "payload": (lambda lines: changed(lines, 2, b'"one"', b'"eno"'), 2),
    "type": (lambda lines: changed(lines, 2, b"session_renamed", b"session_renamen"), 2),
    "moment": (lambda lines: changed(lines, 3, b"T10:00", b"T11:00"), 3),
    "turn": (
        lambda lines: changed(lines, 3, b'"turn_id":null', b'"turn_id":"%b"' % LOG.encode()),
        3,
    ),
    "version": (lambda lines: changed(lines, 4, b'"v":1', b'"v":2'), 4),
    "seq": (lambda lines: changed(lines, 2, b'"seq":2', b'"seq":7'), 2),
    "session": (lambda lines: changed(lines, 2, b'"session_id":"0', b'"session_id":"1'), 2),
    "salt": (lambda lines: changed(lines, 2, b'"salt":"', b'"salt":"%b","x":"' % (b"0" * 32)), 2),
    "another salt": (lambda lines: [*lines[:2], resalted(lines[2]), *lines[3:]], 2),
    "deleted": (lambda lines: without(lines, 3), 3),
    "first deleted": (lambda lines: without(lines, 1), 1),
    "doubled": (lambda lines: doubled(lines, 3), 3),
    "reordered": (lambda lines: swapped(lines, 2), 2),
    "tail": (lambda lines: without(lines, 5), 5),
    "no json": (lambda lines: [*lines[:3], b"]\n", *lines[4:]], 3),
    "spaces": (lambda lines: changed(lines, 3, b'"seq":3', b'"seq": 3'), 3),
    "twice the same key": (lambda lines: changed(lines, 3, b'"seq":3', b'"seq":1,"seq":3'), 3),
    "unknown key": (lambda lines: changed(lines, 3, b'"seq":3', b'"seq":3,"x":1'), 3),
}


@pytest.mark.parametrize("kind", TAMPERED)
@pytest.mark.parametrize("resigned", [False, True])
async def test_the_first_bad_seq_is_named(home: Place, kind: str, resigned: bool) -> None:
    session_id = await session_in(home)
    lines = await home.export(session_id)
    tamper, seq = TAMPERED[kind]
    tampered = tamper(lines)

    verdict = verdict_on(sealed(tampered, key=2) if resigned else tampered)

    first = verdict.problems[0]
    assert (verdict.ok, first.session_id, first.seq) == (False, session_id, seq), verdict
    there = Place()
    with pytest.raises(ExportDamaged, match=f"seq {seq}: "):
        await there.import_(tampered)
    assert await there.is_empty()


async def test_a_removed_session_is_named(home: Place) -> None:
    first, second = sorted([await session_in(home), await session_in(home)])
    lines = await home.export(first, second)

    verdict = verdict_on([*lines[:1], *lines[6:]])

    assert verdict.problems[0] == Damage(session_id=first, seq=1, reason="seq 1 to 5 are missing")
    assert verdict_on([*lines[:6], lines[-1]]).problems[0] == Damage(
        session_id=second, seq=1, reason="seq 1 to 5 are missing"
    )


async def test_what_was_signed_anew_by_another_holds_and_shows_who(home: Place) -> None:
    lines = sealed(await home.export(await session_in(home)), key=2)

    check = check_export(lines, verify_signature)

    assert check.verdict.ok
    assert check.header is not None
    assert check.header.public_key == signer_of(2).public_key


HEADERS: dict[str, Callable[[dict[str, Any]], object]] = {
    "format": lambda header: header.update(navi_export=2),
    "no sessions": lambda header: header.update(sessions=[]),
    "session twice": lambda header: header["sessions"].extend(header["sessions"]),
    "id in capitals": lambda header: header["sessions"][0].update(session_id=LOG.upper()),
    "owner": lambda header: header["sessions"][0].update(owner="eve"),
    "odd owner": lambda header: header["sessions"][0].update(owner="a.*"),
    "first seq": lambda header: header["sessions"][0].update(first_seq=2),
    "last seq": lambda header: header["sessions"][0].update(last_seq=4),
    "later last seq": lambda header: header["sessions"][0].update(last_seq=6),
    "vast last seq": lambda header: header["sessions"][0].update(last_seq=2**60),
    "hash": lambda header: header["sessions"][0].update(hash="0" * 64),
    "origin": lambda header: header["sessions"][0].update(
        forked_from={"session_id": LOG, "seq": 0}
    ),
    "text": lambda header: header["texts"].update({"0" * 64: "other"}),
    "texts no object": lambda header: header.update(texts=[]),
}


@pytest.mark.parametrize("kind", HEADERS)
async def test_a_first_line_that_cannot_be_right_is_refused_whoever_signs_it(
    home: Place, kind: str
) -> None:
    lines = await home.export(await session_in(home))
    header = msgspec.json.decode(lines[0])
    HEADERS[kind](header)

    tampered = sealed([msgspec.json.encode(header) + b"\n", *lines[1:]], key=2)

    there = Place()
    with pytest.raises(ExportDamaged):
        await there.import_(tampered)
    assert await there.is_empty()


async def test_an_event_that_no_log_would_store_is_refused_whoever_signs_it(home: Place) -> None:
    session_id, at = SessionId(new_id()), datetime(2026, 11, 20, 10, tzinfo=UTC)
    for name, event_id, data in (
        ("session_renamed", new_id(), b'{"name":1,"by":"user"}'),
        ("session_renamed", new_id().upper() + "A", b'{"name":"a","by":"user"}'),
        ("session.renamed", new_id(), b"{}"),
        ("no_such_type", new_id(), b'"%b"' % (b"x" * 790_000)),
        ("no_such_type", new_id(), b'"\xff"'),
        ("no_such_type", new_id(), b"[" * 5000 + b"]" * 5000),
        ("no_such_type", new_id(), b'"a\nb"'),
    ):
        salt = bytes(16)
        digest = digest_of(salt, data)
        fields: dict[str, Any] = {
            "session_id": session_id,
            "seq": 1,
            "id": event_id,
            "type": name,
            "v": 1,
            "at": at,
            "turn_id": None,
            "subagent_id": None,
        }
        link = hash_of(bytes(32), **fields, digest=digest)
        head = msgspec.json.encode(fields | {"at": "2026-11-20T10:00:00.000000Z"})[:-1]
        line = b'%b,"data":%b,"salt":"%b","digest":"%b","hash":"%b"}\n' % (
            head,
            data,
            salt.hex().encode(),
            digest.hex().encode(),
            link.hex().encode(),
        )
        header: dict[str, Any] = {
            "navi_export": 1,
            "log_id": LOG,
            "navi_version": "x",
            "made_at": "x",
            "sessions": [
                {
                    "session_id": session_id,
                    "owner": "anna",
                    "first_seq": 1,
                    "last_seq": 1,
                    "hash": link.hex(),
                }
            ],
            "texts": {},
        }

        verdict = verdict_on(sealed([msgspec.json.encode(header) + b"\n", line, b"end"]))

        assert not verdict.ok, name
        assert verdict.problems[0].seq == 1


async def test_an_unknown_type_is_carried_along(home: Place) -> None:
    there = Place()
    session_id = SessionId(new_id())
    event = UnknownEvent(name="of_tomorrow", version=3, data=msgspec.Raw(b'{ "a" : 1.50 }'))
    await home.log.append(batch(session_id, 0, created(), event))

    await there.import_(await home.export(session_id))

    rows = await joined(there.log.read(session_id))
    assert (rows[1].type, rows[1].v, rows[1].data) == ("of_tomorrow", 3, b'{ "a" : 1.50 }')


FAMILY: list[bytes] = []


async def family() -> bytes:
    """The bytes of an export of a fork of a fork and a session; made once."""
    if not FAMILY:
        home = Place()
        *_, fork = await family_in(home)
        FAMILY.append(b"".join(await home.export(fork, await session_in(home))))
    return FAMILY[0]


def lines_in(file: bytes) -> Lines:
    return BytesIO(file).readlines()


async def test_a_signature_is_written_in_one_way(home: Place) -> None:
    lines = await home.export(await session_in(home))
    end = msgspec.json.decode(lines[-1])
    end["signature"] = end["signature"].upper()

    verdict = verdict_on([*lines[:-1], msgspec.json.encode(end) + b"\n"])

    assert not verdict.ok


@settings(max_examples=300)
@given(data=st.data())
async def test_no_byte_can_be_flipped(data: st.DataObject) -> None:
    whole = bytearray(await family())
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))

    verdict = verdict_on(lines_in(bytes(whole)))

    assert not verdict.ok
    assert verdict.problems[0].reason


@settings(max_examples=100)
@given(data=st.data())
async def test_no_export_can_be_cut_anywhere(data: st.DataObject) -> None:
    whole = await family()
    start = data.draw(st.integers(0, len(whole) - 1))
    end = data.draw(st.integers(start + 1, len(whole)))

    verdict = verdict_on(lines_in(whole[:start] + whole[end:]))

    assert not verdict.ok


@settings(max_examples=100)
@given(junk=st.lists(st.binary(max_size=200), max_size=5))
def test_junk_is_refused_and_never_raises(junk: list[bytes]) -> None:
    assert not verdict_on(line + b"\n" for line in junk).ok
