"""What every implementation of ``ReadModels`` does."""

import asyncio
import itertools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from navi.domain.reading.fold import Rows
from navi.domain.reading.projection import UNREADABLE, Change, Hide, Listing, Put, Show
from navi.domain.reading.search import Question, Term, parse_question
from navi.domain.session.session import Session
from navi.domain.vocabulary.events import Said
from navi.domain.vocabulary.ids import LOCAL_OWNER, Owner, SessionId, uuid7
from navi.ports.read_model_admin import ReadModelBackend
from navi.ports.read_model_builds import SessionChanges
from navi.ports.read_models import Build, NamedRow, ParkedEvent, SaidRow, StoredState
from navi.projections.sessions import Sessions

NUMBERS = itertools.count(100)
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def session(number: int) -> SessionId:
    return SessionId(uuid7(milliseconds=number, random=bytes(10)))


A, B, C, D, E = (session(number) for number in range(1, 6))


def changes(
    session_id: SessionId = A,
    *parts: Change,
    seq: int = 1,
    state: bytes = b"{}",
    owner: Owner = LOCAL_OWNER,
    listing: Listing | None = None,
) -> SessionChanges:
    return SessionChanges(
        session_id=session_id, owner=owner, seq=seq, state=state, changes=parts, listing=listing
    )


def listed(
    *, minutes: int = 0, pinned: bool = False, unfinished: bool = False, owing: bool = False
) -> Listing:
    return Listing(
        pinned=pinned,
        last_active=NOON + timedelta(minutes=minutes),
        unfinished=unfinished,
        owing=owing,
    )


def put(key: int, row: bytes | None = None) -> Put:
    return Put(key=key, row=b'"%d"' % key if row is None else row)


def poison(session_id: SessionId = A, *, seq: int = 4) -> ParkedEvent:
    return ParkedEvent(
        session_id=session_id, seq=seq, type="user_message_received", error="KeyError: 'b'"
    )


def said_row(key: int, content: str, *, role: str = "assistant", **fields: object) -> Put:
    """A row of the projection ``messages``."""
    row = {"seq": key, "role": role, "content": content, "at": NOON, "turn_id": None, **fields}
    return put(key, msgspec.json.encode(row))


async def store(
    read_models: ReadModelBackend, projection: str, sessions: Sequence[SessionChanges]
) -> None:
    """Store changes of a projection's version 1."""
    number = (await read_models.open_build(projection, 1)).number
    async with read_models.begin(projection, number, 0) as batch:
        assert batch is not None
        await batch.save(sessions, parked=(), position=9)


async def save(
    read_models: ReadModelBackend,
    *sessions: SessionChanges,
    parked: Sequence[ParkedEvent] = (),
    position: int = 1,
    build: int | None = None,
) -> None:
    """Store changes in a build, at first in the one that serves version 1."""
    number = (await read_models.open_build("sample", 1)).number if build is None else build
    async with read_models.begin("sample", number, 0) as batch:
        assert batch is not None
        await batch.save(sessions, parked=parked, position=position)


async def states(read_models: ReadModelBackend) -> dict[tuple[int, int], str]:
    """The states of the builds, by version and number."""
    return {(b.version, b.number): b.state for b in await read_models.builds(["sample"])}


CHANGES = st.one_of(
    st.builds(Put, key=st.integers(-6, 20), row=st.integers(0, 99).map(b"%d".__mod__)),
    st.builds(Hide, before=st.integers(-6, 20), by=st.integers(1, 6)),
    st.builds(Show, by=st.integers(1, 6)),
)


async def places_of(
    read_models: ReadModelBackend, text: str, owner: Owner = LOCAL_OWNER
) -> list[tuple[SessionId, int]]:
    """Where something was said that fits a question."""
    question = parse_question(text)
    assert question is not None
    found = await read_models.find_said(1, owner=owner, question=question)
    return [(row.session_id, row.seq) for row in found]


class ReadModelsContract:
    """A subclass gives ``read_models``, and ``elsewhere``: the same store in another process."""

    @pytest.fixture
    def read_models(self) -> ReadModelBackend:
        raise NotImplementedError

    @pytest.fixture
    def elsewhere(self, read_models: ReadModelBackend) -> ReadModelBackend:
        return read_models

    async def test_nothing_is_stored_at_first(self, read_models: ReadModelBackend) -> None:
        assert await read_models.load("sample", 1, A) is None
        assert await read_models.positions("sample", 1) == {}
        assert await read_models.parked("sample", 1) == ()
        assert await read_models.unfinished("sample", 1, after=None, limit=9) == ()

    async def test_what_a_batch_saves_is_loaded_again_byte_for_byte(
        self, read_models: ReadModelBackend, elsewhere: ReadModelBackend
    ) -> None:
        state = b'{"b": 1.00, "a": "\\u0000", "b": 2}'

        await save(read_models, changes(A, put(7), put(2), seq=7, state=state), position=9)

        assert await elsewhere.load("sample", 1, A) == StoredState(
            seq=7, state=state, rows=((2, b'"2"'), (7, b'"7"'))
        )
        assert await elsewhere.positions("sample", 1) == {0: 9}

    async def test_sessions_are_found_by_the_marks_that_they_have_come_by(
        self, read_models: ReadModelBackend, elsewhere: ReadModelBackend
    ) -> None:
        number = (await read_models.open_build("conversation", 1)).number
        ada = Owner("ada")
        async with read_models.begin("conversation", number, 0) as batch:
            assert batch is not None
            await batch.save(
                (
                    changes(A, put(2, b'{"mark":"m1"}'), put(5, b'{"mark":"m2"}'), seq=5),
                    changes(B, put(3, b'{"mark":"m1"}'), put(4, b'{"mark":"m1"}'), seq=4),
                    changes(C, put(3, b'{"mark":"m1"}'), seq=3, owner=ada),
                    changes(D, put(3, b'{"mark":"m3"}'), seq=3),
                ),
                parked=(),
                position=9,
            )

        found = await elsewhere.find_marks(1, owner=LOCAL_OWNER, marks=("m1", "m2", "m9"))

        assert set(found) == {(A, "m1"), (A, "m2"), (B, "m1")}
        assert await elsewhere.find_marks(1, owner=ada, marks=("m1",)) == ((C, "m1"),)
        assert await elsewhere.find_marks(2, owner=ada, marks=("m1",)) == ()

    @pytest.mark.parametrize(
        ("text", "questions"),
        [
            ("नमस्ते हिन्दी", ("हिन्दी", "हिन", "हिन्दी नमस्ते", '"नमस्ते हिन्दी"')),
            ("நன்றி", ("நன்றி", "நன்")),
            ("বাংলা ভাষা", ("বাংলা", "ভাষা বাংলা")),
            ("ภาษาไทย ที่อยู่", ("ภาษาไทย", "ที่อยู่")),
            ("u\u0308ber cafe\u0301", ("u\u0308ber", "cafe\u0301")),
            ("שָׁלוֹם", ("שָׁלוֹם",)),
            ("می‌خواهم", ("می‌خواهم",)),  # a joiner of no width in it
            ("1\ufe0f\u20e3 \u2764\ufe0ftea", ("1\ufe0f\u20e3", "tea")),
        ],
    )
    async def test_words_with_marks_are_found(
        self,
        read_models: ReadModelBackend,
        elsewhere: ReadModelBackend,
        text: str,
        questions: tuple[str, ...],
    ) -> None:
        await store(read_models, "messages", (changes(A, said_row(1, text), seq=1),))

        for question in questions:
            assert await places_of(elsewhere, question) == [(A, 1)], question

    async def test_what_was_said_is_found_in_the_sessions_of_an_owner(
        self, read_models: ReadModelBackend, elsewhere: ReadModelBackend
    ) -> None:
        ada = Owner("ada")
        said = (
            changes(
                A,
                said_row(1, "Which green tea is in notes/a.txt?", role="user"),
                said_row(2, "Sencha: 3.14 kg, says anna@example.org."),
                said_row(3, "green tea, the tool says", role="tool"),
                said_row(4, "green tea, the summary says", is_compression=True),
                said_row(5, "green tea, the subagent says", is_subagent=True),
                said_row(6, "a zero\0 and \\u0000 and green tea" + " x" * 100_000),
                seq=6,
            ),
            changes(
                B,
                said_row(1, "", role="user", taken_in=[Said(role="user", content="Teapots")]),
                seq=1,
            ),
            changes(C, said_row(1, "green tea"), seq=1, owner=ada),
        )
        named = tuple(
            changes(
                session_id,
                seq=1,
                owner=owner,
                listing=listing,
                state=b'{"a":"\\u0000","name":%b}' % name,
            )
            for session_id, owner, listing, name in (
                (A, LOCAL_OWNER, listed(), b'"Green tea"'),
                (B, LOCAL_OWNER, listed(), b"null"),
                (E, LOCAL_OWNER, listed(minutes=1), b'"Teapots"'),
                (C, ada, listed(), b'"Tea"'),
                (D, LOCAL_OWNER, None, b'"Tea, deleted"'),
            )
        )
        await store(read_models, "messages", said)
        await store(read_models, "sessions", named)

        places = partial(places_of, elsewhere)
        tea = Question(wanted=(Term(words=("tea",), begins=True),))
        assert await places("green tea") == [(A, 6), (A, 1)]
        assert await places("tea") == [(B, 1), (A, 6), (A, 1)]
        assert await places("GREEN -zero") == [(A, 1)]
        assert await places('"tea green"') == []
        assert await places("a.txt") == [(A, 1)]
        assert await places("3.1") == await places("example") == await places("14 kg") == [(A, 2)]
        assert await places("tea ² -green") == []
        assert await places("green tea", ada) == [(C, 1)]
        assert await places("x " * 200) == [(A, 6)]
        (row,) = await elsewhere.find_said(1, owner=ada, question=tea)
        assert row == SaidRow(session_id=C, seq=1, role="assistant", text="green tea", at=NOON)
        hers = NamedRow(session_id=C, name="Tea", last_active=NOON)
        assert list(await elsewhere.find_named(1, owner=ada, question=tea)) == [hers]
        found = await elsewhere.find_named(1, owner=LOCAL_OWNER, question=tea)
        assert [(row.session_id, row.name) for row in found] == [(E, "Teapots"), (A, "Green tea")]
        names = await elsewhere.names(1, owner=LOCAL_OWNER, sessions=(A, B, C, D))
        assert names == {A: "Green tea", B: None}

        await read_models.forget(A, keep_listed=False)
        assert await places("green tea") == []
        found = await elsewhere.find_named(1, owner=LOCAL_OWNER, question=tea)
        assert [row.session_id for row in found] == [E]

    async def test_the_last_visible_row_up_to_a_key_is_found(
        self, read_models: ReadModelBackend, elsewhere: ReadModelBackend
    ) -> None:
        await save(
            read_models,
            changes(A, put(2), put(5), put(9), seq=9),
            changes(B, put(1), put(4), Hide(before=5, by=6), put(-6), seq=6),
        )

        async def last(session_id: SessionId, until: int) -> tuple[int, bytes] | None:
            return await elsewhere.last_row("sample", 1, session_id, until=until)

        assert [await last(A, until) for until in (1, 2, 8, 9, 99)] == [
            None,
            (2, b'"2"'),
            (5, b'"5"'),
            (9, b'"9"'),
            (9, b'"9"'),
        ]
        assert await last(B, 5) == (-6, b'"-6"')
        assert await last(C, 5) is None
        assert await elsewhere.last_row("sample", 2, A, until=9) is None

    async def test_projections_and_versions_do_not_see_each_other(
        self, read_models: ReadModelBackend
    ) -> None:
        await save(read_models, changes(A, put(1)))
        await read_models.open_build("sample", 2)
        await read_models.open_build("other", 1)

        assert await read_models.load("sample", 2, A) is None
        assert await read_models.load("other", 1, A) is None
        assert await read_models.positions("sample", 2) == {}

    async def test_a_batch_knows_its_position_and_the_states_saved_so_far(
        self, read_models: ReadModelBackend
    ) -> None:
        await save(read_models, changes(A, put(1), seq=1), position=5)

        async with read_models.begin("sample", 1, 0) as batch:
            assert batch is not None
            assert batch.position == 5
            assert await batch.states([A, B]) == {A: StoredState(seq=1, state=b"{}")}
            await batch.save([changes(A, seq=2), changes(B, seq=3)], parked=(), position=8)
            assert batch.position == 8
            assert await batch.states([A, B]) == {
                A: StoredState(seq=2, state=b"{}"),
                B: StoredState(seq=3, state=b"{}"),
            }

    async def test_nobody_sees_a_batch_before_it_is_committed(
        self, read_models: ReadModelBackend, elsewhere: ReadModelBackend
    ) -> None:
        await read_models.open_build("sample", 1)
        async with read_models.begin("sample", 1, 0) as batch:
            assert batch is not None
            await batch.save([changes(A, put(1))], parked=(), position=1)

            assert await elsewhere.load("sample", 1, A) is None

        assert await elsewhere.load("sample", 1, A) is not None

    async def test_a_block_that_raises_leaves_nothing_and_lets_go_of_the_checkpoint(
        self, read_models: ReadModelBackend, elsewhere: ReadModelBackend
    ) -> None:
        await save(read_models, changes(A, put(1)), position=1)
        before = await read_models.load("sample", 1, A)

        async def break_off() -> None:
            async with read_models.begin("sample", 1, 0) as batch:
                assert batch is not None
                await batch.save(
                    [changes(A, put(2), seq=2)],
                    parked=[poison(B)],
                    position=2,
                )
                raise AttributeError("the fold is broken")

        with pytest.raises(AttributeError, match="the fold is broken"):
            await break_off()

        assert await elsewhere.load("sample", 1, A) == before
        assert await elsewhere.parked("sample", 1) == ()
        async with elsewhere.begin("sample", 1, 0) as batch:
            assert batch is not None
            assert batch.position == 1

    async def test_a_checkpoint_has_one_holder(
        self, read_models: ReadModelBackend, elsewhere: ReadModelBackend
    ) -> None:
        await save(read_models, position=1)
        await read_models.open_build("sample", 2)
        await read_models.open_build("other", 1)

        async with read_models.begin("sample", 1, 0) as batch:
            assert batch is not None
            async with (
                elsewhere.begin("sample", 1, 0) as same,
                elsewhere.begin("sample", 1, 1) as other_partition,
                elsewhere.begin("sample", 2, 0) as other_version,
                elsewhere.begin("other", 1, 0) as other_projection,
            ):
                assert same is None
                assert other_partition is not None
                assert other_version is not None
                assert other_projection is not None

        async with elsewhere.begin("sample", 1, 0) as batch:
            assert batch is not None

    async def test_hidden_rows_come_back_where_their_hider_is_undone(
        self, read_models: ReadModelBackend
    ) -> None:
        visible = ((-5, b'"-5"'), (3, b'"3"'))
        await save(
            read_models, changes(A, put(1), put(2), put(3), Hide(before=3, by=5), put(-5), seq=5)
        )
        assert await read_models.load("sample", 1, A) == StoredState(
            seq=5, state=b"{}", rows=visible
        )
        assert await read_models.load("sample", 1, A, hidden=True) == StoredState(
            seq=5, state=b"{}", rows=visible, hidden=((1, 5, b'"1"'), (2, 5, b'"2"'))
        )

        await save(read_models, changes(A, Show(by=5), seq=6), position=2)

        assert await read_models.load("sample", 1, A, hidden=True) == StoredState(
            seq=6, state=b"{}", rows=((1, b'"1"'), (2, b'"2"'), (3, b'"3"'))
        )

    @settings(
        max_examples=25,
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,  # each example has sessions of its own
            HealthCheck.differing_executors,  # one contract, many implementations
        ],
    )
    @given(data=st.data())
    async def test_changes_of_many_sessions_are_made_in_the_order_of_each(
        self, read_models: ReadModelBackend, data: st.DataObject
    ) -> None:
        histories = data.draw(
            st.lists(
                st.dictionaries(
                    st.sampled_from([0, 1, 2]), st.lists(CHANGES, max_size=8), max_size=3
                ),
                max_size=4,
            )
        )
        example = next(NUMBERS)
        expected: dict[SessionId, Rows[bytes]] = {}

        for nth, batch in enumerate(histories, 1):
            parts_of = {session(10 * example + which): parts for which, parts in batch.items()}
            await save(
                read_models,
                *(changes(id_, *parts) for id_, parts in parts_of.items()),
                position=nth,
            )
            for session_id, parts in parts_of.items():
                rows = expected.setdefault(session_id, Rows())
                for change in parts:
                    rows.apply(change)

        for session_id, rows in expected.items():
            assert await read_models.load("sample", 1, session_id, hidden=True) == StoredState(
                seq=1, state=b"{}", rows=rows.visible(), hidden=rows.hidden()
            )

    async def test_rows_are_read_in_pages(self, read_models: ReadModelBackend) -> None:
        await save(
            read_models,
            changes(A, *(put(key) for key in range(-1, 6)), Hide(before=2, by=9), put(-9)),
        )

        async def keys(after: int | None, limit: int | None) -> list[int]:
            stored = await read_models.load("sample", 1, A, rows_after=after, rows_limit=limit)
            assert stored is not None
            return [key for key, _ in stored.rows]

        assert await keys(None, None) == [-9, 2, 3, 4, 5]
        assert await keys(None, 2) == [-9, 2]
        assert await keys(2, 2) == [3, 4]
        assert await keys(4, 2) == [5]
        assert await keys(5, 2) == []
        assert await keys(None, 0) == []

    async def test_state_and_rows_are_of_one_moment(
        self, read_models: ReadModelBackend, elsewhere: ReadModelBackend
    ) -> None:
        written = 30

        async def write() -> None:
            for nth in range(1, written + 1):
                await save(read_models, changes(A, put(nth), seq=nth), position=nth)

        async with asyncio.TaskGroup() as tasks:
            writer = tasks.create_task(write())
            while not writer.done():
                stored = await elsewhere.load("sample", 1, A)
                await asyncio.sleep(0)
                if stored is not None:
                    assert [key for key, _ in stored.rows] == list(range(1, stored.seq + 1))

        stored = await elsewhere.load("sample", 1, A)
        assert stored is not None
        assert stored.seq == written

    async def test_sessions_are_listed_pinned_first_then_newest_first(
        self, read_models: ReadModelBackend
    ) -> None:
        other = Owner("somebody")
        await save(
            read_models,
            changes(A, listing=listed(minutes=1)),
            changes(B, listing=listed(minutes=0, pinned=True)),
            changes(C, listing=listed(minutes=1), state=b"[3]"),
            changes(D, listing=listed(minutes=2)),
            changes(session(5), listing=listed(minutes=9), owner=other),
            changes(session(6)),
        )

        everything = await read_models.list_sessions(
            "sample", 1, owner=LOCAL_OWNER, after=None, limit=None
        )
        assert [session_id for session_id, _ in everything] == [B, D, C, A]
        assert everything[2] == (C, StoredState(seq=1, state=b"[3]"))

        pages: list[SessionId] = []
        places = {B: (True, 0), D: (False, 2), C: (False, 1), A: (False, 1)}
        after = None
        while page := await read_models.list_sessions(
            "sample", 1, owner=LOCAL_OWNER, after=after, limit=1
        ):
            (session_id, _), *more = page
            assert not more
            pages.append(session_id)
            pinned, minutes = places[session_id]
            after = (pinned, NOON + timedelta(minutes=minutes), session_id)
        assert pages == [B, D, C, A]

    async def test_everybodys_sessions_are_listed_in_the_order_of_one_list(
        self, read_models: ReadModelBackend
    ) -> None:
        owners = {A: Owner("ada"), B: Owner("ada"), C: LOCAL_OWNER, D: Owner("zoe")}
        places = {A: (False, 3), B: (False, 1), C: (True, 0), D: (False, 2)}
        await save(
            read_models,
            *(
                changes(id_, owner=owners[id_], listing=listed(pinned=pinned, minutes=minutes))
                for id_, (pinned, minutes) in places.items()
            ),
            changes(E, owner=Owner("bob")),
        )

        pages: list[list[SessionId]] = []
        after = None
        for limit in (2, 2, None):
            page = await read_models.list_sessions(
                "sample", 1, owner=None, after=after, limit=limit
            )
            pages.append([session_id for session_id, _ in page])
            if page:
                pinned, minutes = places[page[-1][0]]
                after = (pinned, NOON + timedelta(minutes=minutes), page[-1][0])

        assert pages == [[C, A], [D, B], []]
        whole = await read_models.list_sessions("sample", 1, owner=None, after=None, limit=None)
        assert [session_id for session_id, _ in whole] == [C, A, D, B]

    async def test_a_session_leaves_the_lists_it_stood_in(
        self, read_models: ReadModelBackend
    ) -> None:
        await save(read_models, changes(A, listing=listed(unfinished=True)))
        assert [
            id_ for id_, _ in await read_models.unfinished("sample", 1, after=None, limit=9)
        ] == [A]

        await save(read_models, changes(A, listing=None), position=2)

        assert await read_models.unfinished("sample", 1, after=None, limit=9) == ()
        assert (
            await read_models.list_sessions("sample", 1, owner=LOCAL_OWNER, after=None, limit=None)
            == ()
        )

    async def test_what_is_forgotten_of_a_session_is_gone_from_every_projection(
        self, read_models: ReadModelBackend, elsewhere: ReadModelBackend
    ) -> None:
        told = (put(1), put(2))
        await save(read_models, changes(A, *told), changes(B, *told), parked=[poison(A)])

        await elsewhere.forget(A, keep_listed=True)

        assert await read_models.load("sample", 1, A) is None
        assert await read_models.parked("sample", 1) == ()
        other = await read_models.load("sample", 1, B)
        assert other is not None
        assert len(other.rows) == 2

    async def test_what_is_forgotten_stays_in_lists_where_it_shall(
        self, read_models: ReadModelBackend
    ) -> None:
        await save(
            read_models,
            changes(A, put(1), listing=listed(minutes=2)),
            changes(B, put(1), listing=listed(minutes=1)),
        )

        await read_models.forget(A, keep_listed=True)
        await read_models.forget(B, keep_listed=False)

        sessions = await read_models.list_sessions(
            "sample", 1, owner=LOCAL_OWNER, after=None, limit=None
        )
        assert [session_id for session_id, _ in sessions] == [A]

    async def test_of_what_is_forgotten_the_name_alone_stays_in_lists(
        self, read_models: ReadModelBackend
    ) -> None:
        said = msgspec.json.encode(Session(name="Weather", profile_id="recalled"))
        kept = changes(A, state=said, seq=7, listing=listed(unfinished=True, owing=True))
        await store(read_models, "sessions", [kept])

        await read_models.forget(A, keep_listed=True)

        stored = await read_models.load("sessions", 1, A)
        assert stored is not None
        assert stored.seq == 0
        assert b"recalled" not in stored.state
        with pytest.raises(UNREADABLE):
            Sessions().decode_state(stored.state)
        assert await read_models.names(1, owner=LOCAL_OWNER, sessions=[A]) == {A: "Weather"}
        assert await read_models.unfinished("sessions", 1, after=None, limit=9) == ((A, stored),)
        owing = await read_models.owing("sessions", 1, after=None, limit=9)
        assert owing == ((A, stored),)

    async def test_a_projection_that_is_excepted_forgets_nothing(
        self, read_models: ReadModelBackend
    ) -> None:
        await save(read_models, changes(A, put(1)), parked=[poison(A)])

        await read_models.forget(A, keep_listed=False, but=("sample",))

        kept = await read_models.load("sample", 1, A)
        assert kept is not None
        assert len(kept.rows) == 1
        assert len(await read_models.parked("sample", 1)) == 1

    async def test_what_is_forgotten_while_a_batch_is_under_way_goes_after_it(
        self, read_models: ReadModelBackend, elsewhere: ReadModelBackend
    ) -> None:
        await save(read_models, changes(B))
        number = (await read_models.open_build("sample", 1)).number
        async with (
            asyncio.timeout(60),
            asyncio.TaskGroup() as tasks,
            read_models.begin("sample", number, 0) as batch,
        ):
            assert batch is not None
            forgetting = tasks.create_task(elsewhere.forget(A, keep_listed=False))
            await asyncio.sleep(0)
            await batch.save([changes(A, put(1))], parked=[], position=2)
            assert not forgetting.done()

        assert await read_models.load("sample", 1, A) is None

    async def test_unfinished_sessions_of_all_owners_are_found_a_part_at_a_time(
        self, read_models: ReadModelBackend
    ) -> None:
        await save(
            read_models,
            changes(A, listing=listed(unfinished=True), state=b"[1]"),
            changes(B, listing=listed()),
            changes(C, listing=listed(unfinished=True), owner=Owner("somebody")),
            changes(D),
        )

        first = await read_models.unfinished("sample", 1, after=None, limit=1)
        rest = await read_models.unfinished("sample", 1, after=A, limit=2)

        assert first == ((A, StoredState(seq=1, state=b"[1]")),)
        assert rest == ((C, StoredState(seq=1, state=b"{}")),)

    async def test_sessions_that_owe_what_follows_a_turn_are_found_a_part_at_a_time(
        self, read_models: ReadModelBackend
    ) -> None:
        await save(
            read_models,
            changes(A, listing=listed(owing=True), state=b"[1]"),
            changes(B, listing=listed(unfinished=True)),
            changes(C, listing=listed(owing=True), owner=Owner("somebody")),
            changes(D, listing=listed(unfinished=True, owing=True)),
            changes(E),
        )

        first = await read_models.owing("sample", 1, after=None, limit=2)
        rest = await read_models.owing("sample", 1, after=C, limit=2)

        assert first == (
            (A, StoredState(seq=1, state=b"[1]")),
            (C, StoredState(seq=1, state=b"{}")),
        )
        assert rest == ((D, StoredState(seq=1, state=b"{}")),)

    async def test_rows_of_a_session_that_is_made_anew_do_not_stay(
        self, read_models: ReadModelBackend
    ) -> None:
        await save(read_models, changes(A, put(1), put(2)), changes(B, put(1)))

        anew = SessionChanges(
            session_id=A,
            owner=LOCAL_OWNER,
            seq=5,
            state=b"[5]",
            changes=(put(2, b'"new"'), put(3)),
            anew=True,
        )
        await save(read_models, anew, changes(B, put(2), seq=2), position=2)

        assert await read_models.load("sample", 1, A, hidden=True) == StoredState(
            seq=5, state=b"[5]", rows=((2, b'"new"'), (3, b'"3"'))
        )
        assert await read_models.load("sample", 1, B) == StoredState(
            seq=2, state=b"{}", rows=((1, b'"1"'), (2, b'"2"'))
        )

    async def test_parked_events_are_kept_once_and_told_by_session_and_seq(
        self, read_models: ReadModelBackend, elsewhere: ReadModelBackend
    ) -> None:
        first, second, third = poison(A, seq=4), poison(A, seq=9), poison(B, seq=2)
        await save(read_models, parked=[third, second])
        await save(read_models, parked=[first, second], position=2)

        assert await elsewhere.parked("sample", 1) == (first, second, third)
        assert await elsewhere.parked("sample", 1, limit=1) == (first,)
        assert await elsewhere.parked("sample", 2) == ()

    # --- builds ---

    async def test_the_first_build_of_a_version_has_its_number_and_serves_while_it_is_made(
        self, read_models: ReadModelBackend, elsewhere: ReadModelBackend
    ) -> None:
        first = await read_models.open_build("sample", 1)
        await save(read_models, changes(A, put(1)), position=7)

        assert first == Build(
            projection="sample", number=1, version=1, state="building", positions={}
        )
        assert await elsewhere.open_build("sample", 1) == Build(
            projection="sample", number=1, version=1, state="building", positions={0: 7}
        )
        assert await elsewhere.load("sample", 1, A) is not None
        assert await read_models.switch("sample", 1)
        assert await elsewhere.switch("sample", 1)
        assert await states(elsewhere) == {(1, 1): "live"}

    async def test_what_is_built_anew_is_seen_by_nobody_before_the_switch(
        self, read_models: ReadModelBackend, elsewhere: ReadModelBackend
    ) -> None:
        old = changes(A, put(1, b'"old"'), listing=listed(unfinished=True), state=b"[1]")
        await save(read_models, old, parked=[poison(B)], position=5)
        await read_models.switch("sample", 1)

        new = await read_models.rebuild("sample", 1)
        assert await elsewhere.rebuild("sample", 1) == new
        fresh = changes(A, put(1, b'"new"'), listing=listed(), state=b"[2]")
        await save(elsewhere, fresh, position=5, build=new.number)

        assert await states(read_models) == {(1, 1): "live", (1, new.number): "building"}
        assert await read_models.load("sample", 1, A) == StoredState(
            seq=1, state=b"[1]", rows=((1, b'"old"'),)
        )
        assert [
            id_ for id_, _ in await read_models.unfinished("sample", 1, after=None, limit=9)
        ] == [A]
        assert await read_models.parked("sample", 1) == (poison(B),)

        assert await read_models.switch("sample", new.number)

        assert await states(elsewhere) == {(1, 1): "retired", (1, new.number): "live"}
        assert await elsewhere.load("sample", 1, A) == StoredState(
            seq=1, state=b"[2]", rows=((1, b'"new"'),)
        )
        assert await elsewhere.unfinished("sample", 1, after=None, limit=9) == ()
        assert await elsewhere.parked("sample", 1) == ()
        assert await elsewhere.positions("sample", 1) == {0: 5}
        assert await elsewhere.list_sessions(
            "sample", 1, owner=LOCAL_OWNER, after=None, limit=None
        ) == ((A, StoredState(seq=1, state=b"[2]")),)

    async def test_a_build_does_not_serve_before_it_is_as_far_as_the_one_that_does(
        self, read_models: ReadModelBackend
    ) -> None:
        await save(read_models, position=5)
        await read_models.switch("sample", 1)
        new = await read_models.rebuild("sample", 1)

        assert not await read_models.switch("sample", new.number)
        await save(read_models, position=4, build=new.number)
        assert not await read_models.switch("sample", new.number)
        await save(read_models, position=6, build=new.number)
        assert await read_models.switch("sample", new.number)

    async def test_nothing_is_switched_under_a_process_at_work(
        self, read_models: ReadModelBackend, elsewhere: ReadModelBackend
    ) -> None:
        await save(read_models, position=1)
        await read_models.switch("sample", 1)
        new = await read_models.rebuild("sample", 1)
        await save(read_models, position=1, build=new.number)

        for number in (1, new.number):
            async with elsewhere.begin("sample", number, 0):
                assert not await read_models.switch("sample", new.number)

        assert await read_models.switch("sample", new.number)
        async with elsewhere.begin("sample", 1, 0) as batch:
            assert batch is None  # the old one is retired: nobody works on it any more

    async def test_a_build_that_there_is_not_is_not_worked_on(
        self, read_models: ReadModelBackend
    ) -> None:
        async with read_models.begin("sample", 3, 0) as batch:
            assert batch is None
        assert not await read_models.switch("sample", 3)
        assert await read_models.builds(["sample"]) == ()

    async def test_what_is_retired_is_dropped_in_parts_and_the_rest_stays(
        self, read_models: ReadModelBackend, elsewhere: ReadModelBackend
    ) -> None:
        await save(
            read_models,
            changes(A, put(1), put(2), put(3)),
            changes(B, put(1)),
            parked=[poison(C)],
            position=5,
        )
        await read_models.switch("sample", 1)
        new = await read_models.rebuild("sample", 1)
        kept = changes(A, put(9))
        await save(read_models, kept, parked=[poison(B)], position=5, build=new.number)
        assert not await read_models.drop_retired(rows=1)
        await read_models.switch("sample", new.number)

        parts = 1
        while await elsewhere.drop_retired(rows=1):
            parts += 1

        assert parts > 1
        assert await states(read_models) == {(1, new.number): "live"}
        assert await read_models.load("sample", 1, A) == StoredState(
            seq=1, state=b"{}", rows=((9, b'"9"'),)
        )
        assert await read_models.parked("sample", 1) == (poison(B),)

    async def test_a_version_that_nobody_runs_is_retired_once_the_present_one_is_complete(
        self, read_models: ReadModelBackend
    ) -> None:
        await save(read_models, changes(A, put(1)))
        await read_models.switch("sample", 1)
        await read_models.open_build("sample", 2)

        await read_models.retire_others("sample", 2, unused_seconds=0)
        assert await states(read_models) == {(1, 1): "live", (2, 2): "building"}

        await read_models.switch("sample", 2)
        await read_models.in_use("sample", 1)
        await read_models.retire_others("sample", 2, unused_seconds=60)
        assert await states(read_models) == {(1, 1): "live", (2, 2): "live"}
        assert await read_models.load("sample", 1, A) is not None

        await read_models.retire_others("sample", 2, unused_seconds=0)
        assert await states(read_models) == {(1, 1): "retired", (2, 2): "live"}
        assert await read_models.load("sample", 1, A) is None

    async def test_a_version_that_comes_back_while_it_is_dropped_begins_a_new_build(
        self, read_models: ReadModelBackend
    ) -> None:
        await save(read_models, changes(A, put(1)))
        await read_models.switch("sample", 1)
        await read_models.open_build("sample", 2)
        await read_models.switch("sample", 2)
        await read_models.retire_others("sample", 2, unused_seconds=0)

        again = await read_models.open_build("sample", 1)

        assert again.number not in (1, 2)
        assert again.state == "building"
        while await read_models.drop_retired(rows=100):
            pass
        assert await states(read_models) == {(2, 2): "live", (1, again.number): "building"}
