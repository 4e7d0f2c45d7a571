"""The rules of uploads: names, kinds, room, and when their time is over."""

from datetime import timedelta

import pytest
from hypothesis import given as cases
from hypothesis import strategies as st
from msgspec import UNSET

from navi.domain.context.prompt import with_files
from navi.domain.session.commands import (
    DeleteSession,
    ExpireUpload,
    ForkSession,
    KeepUploads,
    ReceiveMessage,
)
from navi.domain.session.session import Session
from navi.domain.uploads import (
    MAX_UPLOADS,
    MEBIBYTE,
    check_upload_name,
    due,
    free_name,
    media_type_of,
    path_of,
    refused_suffix,
)
from navi.domain.vocabulary.errors import BadInput, NotFound, UploadsFull
from navi.domain.vocabulary.events import (
    ContentErased,
    FileExpired,
    FileUploaded,
    Origin,
    SessionCreated,
    SessionDeleted,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import LOCAL_OWNER, MessageId, SessionId
from tests.domain.specification import AT, SESSION, fold, given, perform

CREATED = SessionCreated(profile_id="assistant", owner=LOCAL_OWNER)


def uploaded(name: str, size: int = 10, sha256: str = "ab") -> FileUploaded:
    return FileUploaded(
        name=name,
        path=path_of(name),
        size_bytes=size,
        sha256=sha256,
        media_type="text/plain",
    )


def keep(*files: FileUploaded, most: int = MEBIBYTE) -> KeepUploads:
    return KeepUploads(files=files, max_bytes=most)


def names(session: Session) -> list[str]:
    return [upload.name for upload in session.uploads]


def say(*files: str) -> ReceiveMessage:
    return ReceiveMessage(message_id=MessageId("m1"), content="look", files=files)


# --- names and kinds ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "a.txt",
        ".env",
        "…",
        "Bild\u202f1.png",
        "日本語.txt",
        "a b",
        "...",
        "é" * 127,
        "x" * 200,
    ],
)
def test_plain_names_are_taken(name: str) -> None:
    check_upload_name("filename", name)


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("", "not the name"),
        (" ", "not the name"),
        (".", "not the name"),
        ("..", "not the name"),
        ("../a", "path"),
        ("/etc/passwd", "path"),
        ("a/b", "path"),
        (".navi/x", "path"),
        ("a\\b", "path"),
        ("a\0b", "control"),
        ("a\nb", "control"),
        ("a\x7f", "control"),
        ("a\u2028b", "control"),
        ("a\u202etxt.exe", "control"),
        ("x" * 201, "200 are allowed"),
        ("é" * 128, "255 are allowed"),
    ],
)
def test_other_names_are_refused_with_the_cause(name: str, cause: str) -> None:
    with pytest.raises(BadInput, match=cause):
        check_upload_name("filename", name)


@cases(st.text())
def test_a_name_that_is_taken_is_one_component_of_a_path(name: str) -> None:
    try:
        check_upload_name("filename", name)
    except BadInput:
        return
    assert "/" not in name
    assert name not in ("", ".", "..")
    assert len(name.encode()) <= 255


@pytest.mark.parametrize(
    ("declared", "name", "kind"),
    [
        ("text/csv; charset=utf-8", "a", "text/csv"),
        ("IMAGE/PNG", "a", "image/png"),
        (None, "a.pdf", "application/pdf"),
        (None, "a", "application/octet-stream"),
        (None, "a.tar.gz", "application/octet-stream"),
        ("text/html\r\nx: y", "a.txt", "text/plain"),
        ("nonsense", "a.txt", "text/plain"),
        ("text/" + "x" * 200, "a.json", "application/json"),
    ],
)
def test_the_kind_is_the_declared_one_or_the_names(
    declared: str | None, name: str, kind: str
) -> None:
    assert media_type_of(b"GIF, they say", declared, name) == kind


def test_of_a_picture_the_kind_is_what_its_bytes_say() -> None:
    assert media_type_of(b"\xff\xd8\xff\xe0..JFIF..", "text/plain", "cat.txt") == "image/jpeg"


# --- what a session takes -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "numbered"),
    [
        ("report.pdf", "report-2.pdf"),
        ("a.tar.gz", "a-2.tar.gz"),
        ("v1.2.txt", "v1.2-2.txt"),
        ("Makefile", "Makefile-2"),
        (".env", ".env-2"),
        ("end.", "end.-2"),
        ("x" * 196 + ".txt", "x" * 194 + "-2.txt"),
    ],
)
def test_a_taken_name_gets_a_number_before_its_suffix(name: str, numbered: str) -> None:
    assert free_name(name, {name}) == numbered
    assert free_name(name, set()) == name


@cases(
    name=st.text(
        st.characters(exclude_characters="/\\", exclude_categories=["Cc", "Cs"]), min_size=1
    ),
    taken=st.integers(0, 12),
)
def test_a_numbered_name_is_free_and_a_name(name: str, taken: int) -> None:
    try:
        check_upload_name("filename", name)
    except BadInput:
        return
    names: set[str] = set()
    for _ in range(taken + 1):
        names.add(found := free_name(name, names))
        check_upload_name("filename", found)

    assert len(names) == taken + 1


@pytest.mark.parametrize(
    "name",
    [
        "a.exe",
        "a.EXE",
        "a.txt.exe",
        "a.exe.",
        "a.exe . .",
        "a.\uff25\uff38\uff25",
        "a.ex\u200be",
        "\u202aa.exe",
        "a.exe\u1680",
        "a.exe.\u2009\u1680 .",
    ],
)
def test_a_refused_suffix_is_seen_however_it_is_written(name: str) -> None:
    assert refused_suffix(name, (".com", ".exe")) == ".exe"


@pytest.mark.parametrize("name", ["exe", "a.exe.txt", "a.exes", "report.pdf"])
def test_other_names_are_taken(name: str) -> None:
    assert refused_suffix(name, (".exe",)) is None
    assert refused_suffix("a.exe", ()) is None


def test_files_become_uploads_in_their_order() -> None:
    given(CREATED).when(keep(uploaded("a"), uploaded("b"))).then(uploaded("a"), uploaded("b"))


def test_an_upload_replaces_the_one_of_its_name() -> None:
    session = fold([CREATED, uploaded("a", sha256="01"), uploaded("b"), uploaded("a", sha256="02")])

    assert [(u.name, u.sha256, u.seq) for u in session.uploads] == [("b", "ab", 3), ("a", "02", 4)]


def test_what_is_too_much_together_is_refused_by_the_name_of_the_setting() -> None:
    session = [CREATED, uploaded("a", MEBIBYTE)]

    with pytest.raises(UploadsFull, match=r"1 MB together \(SESSION_FILES_MAX_SIZE_MB\)"):
        perform(fold(session), keep(uploaded("b", 1)))
    given(*session).when(keep(uploaded("b", 0))).then(uploaded("b", 0))


def test_a_file_that_replaces_another_has_its_room() -> None:
    session = [CREATED, uploaded("a", MEBIBYTE)]

    given(*session).when(keep(uploaded("a", MEBIBYTE))).then(uploaded("a", MEBIBYTE))
    given(*session).when(keep(uploaded("a", MEBIBYTE), uploaded("b", 1))).refused(UploadsFull)


def test_uploads_are_limited_in_number() -> None:
    full = [CREATED, *(uploaded(f"{n}", 0) for n in range(MAX_UPLOADS))]

    given(*full).when(keep(uploaded("more", 0))).refused(UploadsFull)
    given(*full).when(keep(uploaded("0", 0))).then(uploaded("0", 0))


def test_a_deleted_session_takes_and_has_none() -> None:
    session = [CREATED, uploaded("a"), SessionDeleted()]

    assert fold(session).uploads == ()
    given(*session).when(keep(uploaded("b"))).refused(NotFound)
    given(CREATED, uploaded("a")).when(DeleteSession()).then(SessionDeleted())


def test_an_upload_whose_name_was_erased_is_none() -> None:
    erased = FileUploaded(
        name="[erased]",
        path="[erased]",
        size_bytes=1,
        sha256="[erased]",
        media_type="[erased]",
        erased=True,
    )

    assert fold([CREATED, erased]).uploads == ()


def test_the_erasure_of_a_session_takes_the_uploads_that_came_from_it() -> None:
    def erased(session_id: SessionId, *seqs: int) -> ContentErased:
        return ContentErased(session_id=session_id, events=1, why="session", seqs=seqs or UNSET)

    other = SessionId("01990000-0000-7000-8000-000000000002")
    session = fold([CREATED, uploaded("a"), uploaded("b")])

    left = [
        names(fold([event], start=session))
        for event in (erased(other), erased(SESSION, 2), erased(SESSION))
    ]

    assert left == [["a", "b"], ["b"], []]


# --- what leaves --------------------------------------------------------------------------------


def test_time_is_over_once_it_has_passed() -> None:
    uploads = fold([CREATED, uploaded("a")]).uploads
    day = timedelta(hours=24)

    assert due(uploads, now=AT + day - timedelta(microseconds=1), stay=day) == ()
    assert due(uploads, now=AT + day, stay=day) == uploads


def test_an_upload_expires_once() -> None:
    session = [CREATED, uploaded("a"), uploaded("b")]

    given(*session).when(ExpireUpload(seq=2)).then(FileExpired(name="a"))
    given(*session, FileExpired(name="a")).when(ExpireUpload(seq=2)).then()
    assert names(fold([*session, FileExpired(name="a")])) == ["b"]


def test_what_took_its_place_does_not_expire_with_it() -> None:
    given(CREATED, uploaded("a"), uploaded("a")).when(ExpireUpload(seq=2)).then()


def test_a_fork_says_which_uploads_it_has_not() -> None:
    origin = fold([CREATED, uploaded("a"), uploaded("b")])

    session, appended = perform(
        origin,
        ForkSession(
            origin=Origin(session_id=SESSION, seq=3),
            profile_id="assistant",
            owner=LOCAL_OWNER,
            lost_files=("a",),
        ),
    )

    assert [each.event for each in appended][1:] == [FileExpired(name="a")]
    assert names(session) == ["b"]


# --- messages -----------------------------------------------------------------------------------


def test_a_message_names_uploads_that_are_there() -> None:
    receipt = UserMessageReceived(
        message_id=MessageId("m1"), content="look", files=("a",), mode="queue"
    )

    given(CREATED, uploaded("a")).when(say("a")).then(receipt)
    with pytest.raises(BadInput, match=r"files\[1\]: the session has no upload 'b'"):
        perform(fold([CREATED, uploaded("a")]), say("a", "b"))
    given(CREATED, uploaded("a"), FileExpired(name="a")).when(say("a")).refused(BadInput)


def test_the_same_message_again_is_the_first_one_though_its_file_is_gone() -> None:
    receipt = UserMessageReceived(
        message_id=MessageId("m1"), content="look", files=("a",), mode="queue"
    )
    session = [CREATED, uploaded("a"), receipt, FileExpired(name="a")]
    again = ReceiveMessage(
        message_id=MessageId("m1"), content="look", files=("a",), earlier=(3, receipt)
    )

    given(*session).when(again).then()


def test_the_model_is_told_where_the_files_are() -> None:
    assert with_files("Look.", ("a.txt", "b.txt")) == (
        "Look.\n\n[Uploaded files on disk:\n- uploads/a.txt\n- uploads/b.txt\n]"
    )
    assert with_files("Look.", ()) == "Look."
