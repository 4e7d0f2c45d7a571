"""A conversation that is taken in, and where the instructions of a session stand."""

from msgspec import UNSET

from navi.domain.session.commands import CreateSession, TakeInConversation
from navi.domain.session.session import Session
from navi.domain.vocabulary.errors import TurnUnderway
from navi.domain.vocabulary.events import (
    ContentErased,
    ContextCompressed,
    ConversationTakenIn,
    ModelCalled,
    ModelReplied,
    Origin,
    Said,
    SessionCreated,
    TurnCompleted,
    TurnStarted,
    Usage,
)
from navi.domain.vocabulary.ids import LOCAL_OWNER, CallId
from tests.domain.specification import NODE, SESSION, fold, given

CREATED = SessionCreated(profile_id="assistant", owner=LOCAL_OWNER)
SAID = (Said(role="user", content="Which tea?"), Said(role="assistant", content="Assam."))
STARTED = TurnStarted(node=NODE)
COMPLETED = TurnCompleted(iterations=1, limit_reached=False, usage=Usage())
CALLED = ModelCalled(
    call_id=CallId("c"),
    purpose="turn",
    model="m",
    backend="b",
    iteration=1,
    request_sha256="",
    context_seq=0,
    system_sha256=None,
    tools_sha256=None,
    options={},
    renderer="r/1",
)
REPLIED = ModelReplied(
    call_id=CallId("c"),
    content="Tea",
    thinking="",
    tool_calls=(),
    finish_reason="stop",
    usage=Usage(prompt_tokens=9),
    duration_ms=1,
    first_chunk_ms=None,
)
FORKED = SessionCreated(
    profile_id="assistant", owner=LOCAL_OWNER, forked_from=Origin(session_id=SESSION, seq=2)
)
RHYME, PROSE = (
    ConversationTakenIn(instructions="rhyme"),
    ConversationTakenIn(instructions="prose", beside=True),
)
COMPRESSED = ContextCompressed(
    summary="s", kept_from_seq=9, tokens_before=9, tokens_after=1, trigger="manual"
)


def texts(session: Session) -> tuple[str | None, str | None]:
    """The instructions in the system message, and those in force."""
    both = session.instructions.system, session.instructions.latest
    system, latest = (None if one is None else one.text for one in both)
    return system, latest


def test_a_conversation_is_taken_in_with_its_instructions() -> None:
    given(CREATED).when(
        TakeInConversation(messages=SAID, instructions="rhyme", conversation_id="c-1")
    ).then(ConversationTakenIn(messages=SAID, instructions="rhyme", conversation_id="c-1"))


def test_what_is_known_is_not_taken_in_again() -> None:
    given(CREATED).when(TakeInConversation()).then()
    given(CREATED, RHYME).when(TakeInConversation(instructions="rhyme")).then()
    given(CREATED, RHYME).when(TakeInConversation(instructions=None)).then()


def test_after_the_first_call_instructions_stand_beside_the_context() -> None:
    after = (
        given(CREATED, RHYME, STARTED, CALLED, COMPLETED)
        .when(TakeInConversation(instructions="prose"))
        .then(PROSE)
    )

    assert texts(after) == ("rhyme", "prose")


def test_of_a_fork_what_no_model_has_read_has_no_other_instructions_before_its_own() -> None:
    take_in = TakeInConversation(instructions="prose")

    after = (
        given(CREATED, RHYME, FORKED).when(take_in).then(ConversationTakenIn(instructions="prose"))
    )
    given(CREATED, RHYME, STARTED, CALLED, REPLIED, COMPLETED, FORKED).when(take_in).then(PROSE)

    assert texts(after) == ("prose", "prose")


def test_nothing_is_taken_in_while_a_turn_is_open() -> None:
    given(CREATED, STARTED).when(TakeInConversation(instructions="prose")).refused(TurnUnderway)


def test_a_compression_moves_the_latest_instructions_into_the_system_message() -> None:
    assert texts(fold((CREATED, RHYME, PROSE, COMPRESSED))) == ("prose", "prose")


def test_instructions_that_were_erased_are_followed_no_more() -> None:
    erased = ContentErased(session_id=SESSION, events=1, why="memory", seqs=(3,))

    assert texts(fold((CREATED, RHYME, PROSE, erased))) == ("rhyme", None)


def test_nothing_follows_the_turn_of_a_plain_session() -> None:
    created = (
        given()
        .when(CreateSession(profile_id="p", owner=LOCAL_OWNER, plain=True))
        .then(SessionCreated(profile_id="p", owner=LOCAL_OWNER, plain=True))
    )

    assert created.plain
    assert fold((STARTED, COMPLETED), start=created).follow_up is None
    assert SessionCreated(profile_id="p", owner=LOCAL_OWNER).plain is UNSET
