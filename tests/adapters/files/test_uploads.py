"""Uploads on a file system: the contract, what a tool may plant there, and a disk that is full."""

import os
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from navi.adapters.files.drafts import FileDraft
from navi.adapters.files.uploads import GRACE_SECONDS, FolderUploads
from navi.adapters.system import SystemClock
from navi.domain.vocabulary.errors import DiskFull, RuleBroken
from navi.ports.uploads import UploadStore
from tests.contracts.upload_store import HELLO, A, UploadStoreContract, left, put, read, upload
from tests.support.small_disk import can_mount, small_disk


class LateClock(SystemClock):
    """A clock of somebody who looks later."""

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=GRACE_SECONDS + 1)


class TestUploads(UploadStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> FolderUploads:
        return FolderUploads(tmp_path, SystemClock())

    @pytest.fixture
    def elsewhere(self, tmp_path: Path) -> FolderUploads:
        return FolderUploads(tmp_path, SystemClock())


@pytest.fixture
def store(tmp_path: Path) -> FolderUploads:
    return FolderUploads(tmp_path / "files", SystemClock())


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    path = tmp_path / "outside"
    path.mkdir()
    (path / "secret").write_text("secret")
    return path


@pytest.fixture
def workspace(store: FolderUploads, tmp_path: Path) -> Path:
    path = tmp_path / "files" / A
    path.mkdir(parents=True)
    return path


async def test_a_draft_nobody_asks_for_goes_after_a_while(
    store: FolderUploads, tmp_path: Path
) -> None:
    await left(store, A, HELLO)

    # Its event may still be on the way: Postgres commits what a connection that is gone has sent.
    async with store.session_uploads(A) as session_uploads:
        await session_uploads.settle([])
    assert await store.sessions() == {A: True}

    async with FolderUploads(tmp_path / "files", LateClock()).session_uploads(A) as session_uploads:
        await session_uploads.settle([])
    assert await store.sessions() == {A: False}


async def test_what_a_killed_process_had_begun_goes_after_a_while(
    store: FolderUploads, tmp_path: Path
) -> None:
    async with store.draft(A) as draft:
        await draft.write(HELLO)
        draft.leave()

    async with FolderUploads(tmp_path / "files", LateClock()).session_uploads(A) as session_uploads:
        await session_uploads.settle([upload("a", HELLO)])

    assert await store.sessions() == {A: False}
    assert await read(store, A, "a") is None


async def test_a_link_in_place_of_a_file_is_not_followed(
    store: FolderUploads, workspace: Path, outside: Path
) -> None:
    (workspace / "uploads").mkdir()
    (workspace / "uploads" / "a").symlink_to(outside / "secret")
    os.link(outside / "secret", workspace / "uploads" / "hard")
    os.mkfifo(workspace / "uploads" / "pipe")
    (workspace / "uploads" / "directory").mkdir()

    for name in ("a", "hard", "pipe", "directory", "../../outside/secret", ".."):
        assert await read(store, A, name) is None

    await put(store, A, "a", HELLO)
    assert await read(store, A, "a") == HELLO
    assert (outside / "secret").read_text() == "secret"
    async with store.session_uploads(A) as session_uploads:
        await session_uploads.clear()
    assert (outside / "secret").read_text() == "secret"


async def test_a_link_in_place_of_the_directory_is_said_and_nothing_kept(
    store: FolderUploads, workspace: Path, outside: Path
) -> None:
    (workspace / "uploads").symlink_to(outside)

    with pytest.raises(RuleBroken, match="link"):
        await put(store, A, "secret", HELLO)
    with pytest.raises(RuleBroken, match="link"):
        async with store.session_uploads(A) as session_uploads:
            await session_uploads.remove("secret")

    assert await read(store, A, "secret") is None
    assert await store.sessions() == {A: False}
    assert (outside / "secret").read_text() == "secret"


async def test_a_directory_of_the_name_is_in_the_way_before_the_log_is_written(
    store: FolderUploads, workspace: Path
) -> None:
    (workspace / "uploads" / "a").mkdir(parents=True)

    async with store.session_uploads(A) as session_uploads:
        with pytest.raises(RuleBroken):
            await session_uploads.check("a")


@pytest.mark.skipif(not can_mount(), reason="this user may mount no file system")
async def test_a_full_disk_is_said_and_leaves_nothing_half(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", mebibytes=4) as disk:
        store: UploadStore = FolderUploads(disk.path, SystemClock())
        await put(store, A, "a", HELLO)

        with pytest.raises(DiskFull, match="no room"):
            await put(store, A, "b", b"x" * 8 * 1024 * 1024)

        assert [await read(store, A, name) for name in ("a", "b")] == [HELLO, None]
        assert await store.sessions() == {A: False}
        await put(store, A, "b", HELLO)


async def test_a_draft_is_durable_before_it_says_so(
    store: FolderUploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)

    async with store.draft(A) as draft:
        assert isinstance(draft, FileDraft)
        await draft.write(HELLO)
        synced.clear()
        await draft.finish()
        name, directory = draft.place
        places = [os.stat(name, dir_fd=directory).st_ino, os.fstat(directory).st_ino]

    assert synced == places
