"""What every implementation of ``UploadStore`` does."""

import asyncio
import hashlib
from datetime import UTC, datetime

import pytest

from navi.domain.uploads import Upload, path_of
from navi.domain.vocabulary.ids import SessionId, uuid7
from navi.ports.uploads import UploadStore


def session(number: int) -> SessionId:
    return SessionId(uuid7(milliseconds=number, random=bytes([number] * 10)))


A, B = session(1), session(2)
HELLO = b"hello, " * 1000


def upload(name: str, data: bytes) -> Upload:
    """What the log says once the bytes are an upload."""
    return Upload(
        name=name,
        path=path_of(name),
        size_bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        media_type="text/plain",
        at=datetime.now(UTC),  # noqa: TID251  # near to now, as the log's
        seq=2,
        session_id=A,
    )


async def put(store: UploadStore, session_id: SessionId, name: str, data: bytes) -> None:
    async with store.draft(session_id) as draft:
        await draft.write(data)
        await draft.finish()
        async with store.session_uploads(session_id) as session_uploads:
            await session_uploads.check(name)
            draft.leave()
            await session_uploads.put(draft, name)


async def left(store: UploadStore, session_id: SessionId, data: bytes) -> None:
    """A draft as a process leaves it that ends between the event and the place."""
    async with store.draft(session_id) as draft:
        await draft.write(data)
        await draft.finish()
        draft.leave()


async def read(store: UploadStore, session_id: SessionId, name: str) -> bytes | None:
    file = await store.open(session_id, name)
    if file is None:
        return None
    try:
        data = b"".join([chunk async for chunk in file.chunks()])
    finally:
        await file.close()
    assert len(data) == file.size_bytes
    return data


class UploadStoreContract:
    """A subclass gives ``store``, and ``elsewhere``: the same in another process."""

    @pytest.fixture
    def store(self) -> UploadStore:
        raise NotImplementedError

    @pytest.fixture
    def elsewhere(self) -> UploadStore:
        raise NotImplementedError

    async def test_what_was_put_is_read_everywhere(
        self, store: UploadStore, elsewhere: UploadStore
    ) -> None:
        await put(store, A, "a.txt", HELLO)

        assert await read(elsewhere, A, "a.txt") == HELLO
        assert await read(elsewhere, A, "b.txt") is None
        assert await read(elsewhere, B, "a.txt") is None

    async def test_an_empty_file_is_a_file(self, store: UploadStore) -> None:
        await put(store, A, "a", b"")

        assert await read(store, A, "a") == b""

    async def test_the_digest_is_of_all_bytes(self, store: UploadStore) -> None:
        async with store.draft(A) as draft:
            await draft.write(HELLO)
            await draft.write(b"!")
            digest = await draft.finish()

        assert (digest.size_bytes, digest.sha256) == (
            len(HELLO) + 1,
            hashlib.sha256(HELLO + b"!").hexdigest(),
        )

    async def test_a_draft_that_was_not_put_leaves_nothing(self, store: UploadStore) -> None:
        async with store.draft(A) as draft:
            await draft.write(HELLO)
            assert await store.sessions() == {A: True}

        assert await store.sessions() == {A: False}
        assert await read(store, A, "a.txt") is None

    async def test_another_of_the_name_takes_its_place(self, store: UploadStore) -> None:
        await put(store, A, "a.txt", HELLO)
        reader = await store.open(A, "a.txt")
        await put(store, A, "a.txt", b"new")

        assert await read(store, A, "a.txt") == b"new"
        assert reader is not None
        assert b"".join([chunk async for chunk in reader.chunks()]) == HELLO
        await reader.close()

    async def test_what_is_removed_is_gone(self, store: UploadStore) -> None:
        await put(store, A, "a.txt", HELLO)
        await put(store, A, "b.txt", HELLO)

        async with store.session_uploads(A) as session_uploads:
            await session_uploads.remove("a.txt")
            await session_uploads.remove("never there")

        assert [await read(store, A, name) for name in ("a.txt", "b.txt")] == [None, HELLO]

    async def test_what_is_lost_is_told_by_its_bytes(self, store: UploadStore) -> None:
        await put(store, A, "same", HELLO)
        await put(store, A, "other", b"x" * len(HELLO))

        async with store.session_uploads(A) as session_uploads:
            lost = await session_uploads.lost(
                [upload(name, HELLO) for name in ("same", "other", "none")]
            )

        assert lost == ("other", "none")

    async def test_a_draft_that_the_log_asks_for_is_put_in_its_place(
        self, store: UploadStore, elsewhere: UploadStore
    ) -> None:
        await put(store, A, "a.txt", b"old")
        await left(store, A, HELLO)

        async with elsewhere.session_uploads(A) as session_uploads:
            await session_uploads.settle([upload("a.txt", HELLO), upload("c", b"c")])

        assert await read(store, A, "a.txt") == HELLO
        assert await store.sessions() == {A: False}

    async def test_drafts_of_the_same_bytes_are_put_in_each_place(self, store: UploadStore) -> None:
        await left(store, A, HELLO)
        await left(store, A, HELLO)

        async with store.session_uploads(A) as session_uploads:
            await session_uploads.settle([upload("a", HELLO), upload("b", HELLO)])

        assert [await read(store, A, name) for name in ("a", "b")] == [HELLO, HELLO]

    async def test_a_draft_that_is_held_is_nobody_elses(
        self, store: UploadStore, elsewhere: UploadStore
    ) -> None:
        async with store.draft(A) as draft:
            await draft.write(HELLO)
            await draft.finish()

            async with elsewhere.session_uploads(A) as session_uploads:
                await session_uploads.settle([upload("a", HELLO)])
                await session_uploads.clear()

            assert await store.sessions() == {A: True}
            assert await read(store, A, "a") is None

    async def test_the_shelf_is_one_processes_at_a_time(
        self, store: UploadStore, elsewhere: UploadStore
    ) -> None:
        order: list[str] = []

        async def other() -> None:
            async with elsewhere.session_uploads(A):
                order.append("other")

        async with store.session_uploads(A):
            waiting = asyncio.create_task(other())
            async with elsewhere.session_uploads(B):  # of another session it is free
                order.append("mine")
        await waiting

        assert order == ["mine", "other"]

    async def test_a_cleared_session_has_nothing_and_is_forgotten(self, store: UploadStore) -> None:
        await put(store, A, "a.txt", HELLO)
        await left(store, A, HELLO)
        await put(store, B, "b.txt", HELLO)

        await store.forget(A)
        assert await store.sessions() == {A: True, B: False}
        async with store.session_uploads(A) as session_uploads:
            await session_uploads.clear()
        await store.forget(A)

        assert await store.sessions() == {B: False}
        assert await read(store, A, "a.txt") is None
        assert await read(store, B, "b.txt") == HELLO

    async def test_one_process_sweeps_at_a_time(
        self, store: UploadStore, elsewhere: UploadStore
    ) -> None:
        async with store.sweep() as mine, elsewhere.sweep() as theirs:
            assert (mine, theirs) == (True, False)

        async with elsewhere.sweep() as theirs:
            assert theirs
