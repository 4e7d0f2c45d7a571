"""What holds for every fork, wherever it is made in whatever history."""

import json
from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import precondition, rule
from msgspec.structs import replace

from navi.domain.context.messages import Message
from navi.domain.reading.fold import Fold
from navi.domain.session.commands import (
    Completed,
    EndSubagent,
    EndTurn,
    ForkSession,
    ReceiveMessage,
    RecordAside,
    RecordOutcome,
    Runner,
    TurnStart,
)
from navi.domain.session.fork import last_forkable
from navi.domain.session.session import Session, Wait, evolve, next_step
from navi.domain.vocabulary.event_codec import encode_data, encode_envelope, type_of, version_of
from navi.domain.vocabulary.events import (
    Envelope,
    MessageWithdrawn,
    ModelCalled,
    ModelCallFailed,
    ModelReplied,
    Origin,
    SubagentFinished,
    SubagentStarted,
    ToolFinished,
    TurnStopped,
)
from navi.domain.vocabulary.ids import LOCAL_OWNER, CallId, MessageId, SessionId, SubagentId, TurnId
from navi.projections.context import Context
from tests.domain.specification import NODE, SESSION, perform
from tests.domain.test_actors import called, replied
from tests.domain.test_session_properties import SessionUnderFire
from tests.support.promises import broken_promises

FORK = SessionId("01990000-0000-7000-8000-0000000000ff")


class ForksUnderFire(SessionUnderFire):
    """Any history, with subagents and calls beside the turns, forked at each of its events."""

    @rule(answer=st.booleans())
    def beside(self, answer: bool) -> None:
        """A compression by hand: asked for, or answered."""
        if answer and self.session.asides:
            self.do(RecordAside(events=(replied(self.session.asides[0].id),)))
        elif not answer and len(self.session.asides) < 2:
            call = called(f"a{self.number()}", "compression", node=NODE)
            self.do(RecordAside(events=(call,)))

    @rule(seeds=st.lists(st.integers(0, 2), min_size=2, max_size=9))
    def work(self, seeds: list[int]) -> None:
        """Several steps of a turn, in which calls are answered and tools are run."""
        if self.session.turn is None:
            self.speak(NODE, "queue")
        for seed in seeds:
            self.step(seed)

    @rule(seed=st.integers(0, 5))
    def step(self, seed: int) -> None:
        """As ever, but a call has no result while the subagent that answers it is at work."""
        turn = self.session.turn
        for name in () if turn is None else tuple(turn.actors):
            if name:
                self.subagent("return")
        super().step(seed)

    @rule(steps=st.lists(st.sampled_from(["spawn", "call", "return"]), min_size=1, max_size=6))
    @precondition(lambda self: self.session.turn is not None)
    def subagents(self, steps: list[str]) -> None:
        for what in steps:
            if self.session.turn is not None:
                self.subagent(what)

    def subagent(self, what: str) -> None:
        turn = self.session.turn
        assert turn is not None
        at_work = [SubagentId(name) for name in turn.actors if name]
        running = [run.call for run in turn.actor(None).tools if run.started]
        if what == "spawn" and running:
            event = SubagentStarted(call_id=running[0].id, profile_id="p", task="x")
            self.as_subagent(SubagentId(f"subagent_{self.number():012x}"), event)
        elif what == "call" and at_work:
            call = turn.actor(at_work[0]).call
            answer = called(f"s{self.number()}") if call is None else replied(call.id)
            self.as_subagent(at_work[0], answer)
        elif what == "return" and at_work:
            command = EndSubagent(
                runner=self.runner,
                subagent_id=at_work[0],
                result="",
                completed_normally=True,
                partial_replies={},
            )
            self.do(command)

    def as_subagent(self, subagent_id: SubagentId, event: Any) -> None:
        self.do(RecordOutcome(runner=self.runner, events=(event,), subagent_id=subagent_id))

    def teardown(self) -> None:
        """Fork everywhere."""
        legal = [at for at in range(len(self.log) + 1) if nothing_is_open(self.log[:at])]
        stored = json_of(self.log)
        for at in range(len(self.log) + 1):
            found = last_forkable(Session(), self.log[:at])
            assert found is not None
            assert found.seq == max(place for place in legal if place <= at)
            assert found == last_forkable(found, self.log[found.seq : at])
        for place in legal:
            check_fork(self.log[:place])
        assert json_of(self.log) == stored


def check_fork(shared: Sequence[Envelope]) -> None:
    """A fork behind these events keeps every promise, now and after its next message."""
    start = last_forkable(Session(), shared)
    assert start is not None
    fork = replace(start, id=FORK)
    command = ForkSession(
        origin=Origin(session_id=SESSION, seq=fork.seq),
        profile_id=fork.profile_id or "assistant",
        owner=LOCAL_OWNER,
    )
    fork, created = perform(fork, command)

    assert next_step(fork) == Wait()
    assert fork.exists != fork.deleted
    assert all(isinstance(item.event, TurnStopped | MessageWithdrawn) for item in created[1:])
    stream = [*shared, *created]
    assert broken_promises(json_of(stream)) == []
    assert session_of(stream) == replace(fork, id=session_of(stream).id)

    fork, answered = answer_a_message(fork)

    assert (fork.turn, fork.waiting) == (None, ())
    stream += answered
    assert broken_promises(json_of(stream)) == []
    assert are_paired(context_of(stream))


def answer_a_message(session: Session) -> tuple[Session, list[Envelope]]:
    """One message and a model that answers it at once."""
    turn_id = TurnId("turn-of-the-fork")
    runner = Runner(turn_id=turn_id, attempt=1)
    appended: list[Envelope] = []
    for command in (
        ReceiveMessage(
            message_id=MessageId("in the fork"),
            content="x",
            start=TurnStart(turn_id=turn_id, node=NODE),
        ),
        RecordOutcome(runner=runner, events=(called("f1"),)),
        RecordOutcome(runner=runner, events=(replied("f1"),)),
        EndTurn(runner=runner, ending=Completed(limit_reached=False), partial_replies={}),
    ):
        session, news = perform(session, command)
        appended += news
    return session, appended


def nothing_is_open(log: Sequence[Envelope]) -> bool:
    """Whether no call is open, read off the events themselves."""
    owed: set[tuple[str, CallId]] = set()
    for item in log:
        match item.event:
            case ModelCalled(call_id=call_id):
                owed.add(("model", call_id))
            case ModelReplied(call_id=call_id, tool_calls=calls):
                owed.discard(("model", call_id))
                owed |= {("tool", call.id) for call in calls}
            case ModelCallFailed(call_id=call_id):
                owed.discard(("model", call_id))
            case ToolFinished(call_id=call_id):
                owed.discard(("tool", call_id))
            case SubagentStarted(call_id=call_id):
                owed.add(("subagent", call_id))
            case SubagentFinished(call_id=call_id):
                owed.discard(("subagent", call_id))
            case _:
                pass
    return not owed


def session_of(log: Sequence[Envelope]) -> Session:
    session = Session()
    for item in log:
        session = evolve(session, item)
    return session


def context_of(log: Sequence[Envelope]) -> list[Message]:
    fold = Fold(Context())
    for item in log:
        fold.apply(item)
    return [row for _, row in fold.rows.visible()]


def are_paired(messages: Sequence[Message]) -> bool:
    """Whether every call that the model would see is followed by its result."""
    owed: list[CallId] = []
    for message in messages:
        if message.role == "tool":
            assert message.call_id in owed
            owed.remove(CallId(str(message.call_id)))
        elif owed:
            return False
        owed += [call.id for call in message.tool_calls or ()]
    return not owed


def json_of(log: Sequence[Envelope]) -> list[Any]:
    """Events as clients get them."""
    return [
        json.loads(
            encode_envelope(
                session_id=item.session_id,
                seq=item.seq,
                id=item.id,
                type=type_of(item.event),
                v=version_of(item.event),
                at=item.at,
                turn_id=item.turn_id,
                subagent_id=item.subagent_id,
                data=encode_data(item.event),
            )
        )
        for item in log
    ]


TestForksUnderFire = ForksUnderFire.TestCase
TestForksUnderFire.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
