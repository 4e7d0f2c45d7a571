"""Commands on sessions: create, send a message, stop, rename, pin, switch profile, delete."""

from contextlib import ExitStack, aclosing, suppress

from msgspec import Struct
from msgspec.structs import replace

from navi.application.agent.actor_profile import ServedProfiles, profile_of
from navi.application.agent.budgets import Budgets
from navi.application.agent.session_runs import SessionRuns
from navi.application.session.find_session import (
    conversation,
    existing_session,
    own_session,
    readable_session,
    recent_conversation,
)
from navi.application.session.record import Record, Records
from navi.domain.log.secrets import Secrets
from navi.domain.session.commands import (
    Command,
    CreateSession,
    DeleteSession,
    PinSession,
    ReceiveMessage,
    RenameSession,
    RequestStop,
    SwitchProfile,
    TakeInConversation,
    TurnStart,
)
from navi.domain.session.decide import decide
from navi.domain.session.session import Session
from navi.domain.vocabulary.errors import (
    BadInput,
    ConcurrentAppend,
    NotFound,
    RuleBroken,
    TurnUnderway,
)
from navi.domain.vocabulary.events import (
    ConversationTakenIn,
    Mode,
    ProfileSwitched,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import LOCAL_OWNER, MessageId, NodeId, Owner, SessionId, TurnId
from navi.domain.vocabulary.principal import Principal
from navi.ports.clock import Ids
from navi.ports.event_log import EventLog, Types

# By which somebody goes on with a conversation, and it is no longer as it was found.
GOING_ON = Types(
    only=frozenset({UserMessageReceived.TYPE, ConversationTakenIn.TYPE, ProfileSwitched.TYPE})
)


class Received(Struct, frozen=True, kw_only=True):
    """A message is in the log.

    Attributes:
        seq: of its event.
        repeated: it was received before.
    """

    message_id: MessageId
    seq: int
    repeated: bool


class Change(Struct, frozen=True, kw_only=True):
    """Changes to a session; None leaves a property as it is."""

    name: str | None = None
    pinned: bool | None = None
    profile_id: str | None = None


class ManageSessions:
    """Executes commands of users, however they came in."""

    def __init__(
        self,
        event_log: EventLog,
        *,
        records: Records,
        runs: SessionRuns,
        profiles: ServedProfiles,
        ids: Ids,
        node: NodeId,
        secrets: Secrets,
        budgets: Budgets,
    ) -> None:
        self._log = event_log
        self._records = records
        self._runs = runs
        self._profiles = profiles
        self._ids = ids
        self._node = node
        self._secrets = secrets
        self._budgets = budgets

    async def create(
        self,
        *,
        profile_id: str,
        name: str | None,
        owner: Owner = LOCAL_OWNER,
        plain: bool = False,
    ) -> Session:
        """A new session; a ``plain`` one answers without tools and memories, and nothing follows.

        Raises:
            BadInput: there is no such profile.
        """
        await self._require_profile(profile_id)
        record = await self._records.open(SessionId(self._ids.uuid()))
        await record.execute(
            CreateSession(profile_id=profile_id, owner=owner, name=name, plain=plain)
        )
        return record.session

    async def check_day(self, owner: Owner) -> None:
        """Look, before a session is made for a message, whether it may be answered today.

        Raises:
            OutOfBudget: nothing is left to answer it with.
        """
        await self._budgets.check_day(owner)

    async def check_message(self, session_id: SessionId) -> None:
        """Look, before files are kept for a message, whether the session would receive it.

        Raises:
            NotFound: no such session.
            TooManyWaiting: the session's queue is full.
            OutOfBudget: nothing is left to answer it with.
        """
        record = await conversation(self._records, session_id)
        decide(record.session, ReceiveMessage(message_id=MessageId(self._ids.uuid()), content=""))
        profile = await profile_of(record, self._profiles)
        await self._budgets.check(record, profile, in_turn=False)

    async def take_in(
        self,
        session_id: SessionId,
        taken: TakeInConversation,
        *,
        to_profile: str | None = None,
        as_of: int | None = None,
    ) -> int | None:
        """Take in what another program has kept of a conversation; nothing while a turn is open.

        Args:
            to_profile: that the session is switched to; None where it keeps its own.
            as_of: the event as of which the session was found; None for whatever it has come to.

        Returns:
            The event as of which it is known now; None where ``as_of`` is.

        Raises:
            NotFound: no such session.
            BadInput: there is no such profile; then nothing is changed.
            ConcurrentAppend: somebody else has gone on in it since ``as_of``; find another one.
            EventTooLarge: it is too much for one event.
        """
        record = await conversation(self._records, session_id)
        if to_profile is not None:
            await self._require_profile(to_profile)
        with suppress(TurnUnderway):  # its instructions come again with the next message
            as_of = await self._execute(record, taken, as_of=as_of)
        if to_profile is not None:
            as_of = await self._execute(record, SwitchProfile(to_profile=to_profile), as_of=as_of)
        return as_of

    async def _execute(self, record: Record, command: Command, *, as_of: int | None) -> int | None:
        """Execute a command on a session as it was found; see ``take_in``."""
        if as_of is None:
            await record.execute(command)
            return None
        while True:
            seen = record.seq
            as_of = await self._still(record.id, as_of=as_of, seen=seen)
            with suppress(ConcurrentAppend):
                rows = await record.try_once(command, seen=seen)
                return rows[-1].seq if rows else as_of

    async def _still(self, session_id: SessionId, *, as_of: int, seen: int) -> int:
        """The event up to which nobody has gone on in the session, looked at up to ``seen``.

        Raises:
            ConcurrentAppend: somebody has.
        """
        if seen <= as_of:
            return as_of
        going_on = self._log.read(session_id, after=as_of, until=seen, types=GOING_ON)
        async with aclosing(going_on) as batches:
            async for _ in batches:
                raise ConcurrentAppend(session_id, as_of)
        return seen

    async def begin(self, session_id: SessionId, *, profile_id: str, owner: Owner) -> None:
        """Begin the session that is kept under an id that somebody else has made; once only."""
        record = await self._records.open(session_id)
        if record.session.created_at is None:
            with suppress(RuleBroken):  # another request was faster, here or on another node
                await record.execute(CreateSession(profile_id=profile_id, owner=owner))

    async def was_begun(self, session_id: SessionId) -> bool:
        """Whether there is a session of this id, or was one, whosever it is."""
        return (await self._records.open(session_id)).session.created_at is not None

    async def find(self, session_id: SessionId) -> Session:
        """The session's present state.

        Raises:
            NotFound: it does not exist, or not any more.
        """
        return (await existing_session(self._records, session_id)).session

    async def readable(self, principal: Principal, session_id: SessionId) -> Session:
        """The present state of a session that ``principal`` may read: their own, an admin any.

        Raises:
            NotFound: it does not exist, or not any more, or not for them.
        """
        return (await readable_session(self._records, principal, session_id)).session

    async def own(self, principal: Principal, session_id: SessionId) -> SessionId:
        """The id of a session that ``principal`` may change: their own.

        Raises:
            NotFound: it does not exist, or not any more, or not for them.
        """
        return (await own_session(self._records, principal, session_id)).id

    async def receive(
        self,
        session_id: SessionId,
        *,
        content: str,
        files: tuple[str, ...],
        mode: Mode,
        message_id: MessageId | None,
        planning: bool,
        behind: str | None = None,
        as_of: int | None = None,
    ) -> Received:
        """Receive a message, idempotent by its id, and start a turn for it.

        Args:
            planning: whether its turn may plan, where the profile does.
            behind: the mark of the conversation that it is said behind, where the program that sends
                it has another one than the session.
            as_of: the event as of which the session was found; None for whatever it has come to.

        Raises:
            NotFound: no such session.
            ConcurrentAppend: somebody else has gone on in it since ``as_of``; find another one.
            MessageIdReused: the id stands for another content.
            TooManyWaiting: the session's queue is full.
            OutOfBudget: nothing is left to answer it with.
        """
        record = await recent_conversation(self._records, session_id)
        # Here and not at the append: the same message once more is compared with what was kept.
        said = self._secrets.mask(content)
        message = ReceiveMessage(
            message_id=message_id or MessageId(self._ids.uuid()),
            content=said.text,
            files=files,
            mode=mode,
            planning=planning,
            masked=said.names,
            behind=behind,
        )
        is_new = message_id is None
        try:
            try:
                return await self._receive(record, message, is_new=is_new, as_of=as_of)
            except (NotFound, BadInput, RuleBroken):
                await record.refresh()  # it may have been refused for what is over
                return await self._receive(record, message, is_new=is_new, as_of=as_of)
        finally:
            # Not only for a turn that was opened: without one the place for it is given back.
            self._runs.wake(session_id)

    async def _receive(
        self, record: Record, message: ReceiveMessage, *, is_new: bool, as_of: int | None
    ) -> Received:
        """Receive a message on the state that is known here; a new one was not sent before."""
        message_id = message.message_id
        while True:
            seen, start = record.seq, None
            if as_of is not None:
                as_of = await self._still(record.id, as_of=as_of, seen=seen)
            earlier = None if is_new else await self._log.find_receipt(record.id, message_id)
            if earlier is not None:
                # Nothing is appended, which would tell whether the session is still there.
                await record.refresh()
                seen = record.seq
            profile = await profile_of(record, self._profiles)
            with ExitStack() as opening:
                if earlier is None:
                    await self._budgets.check(record, profile, in_turn=False)
                    if await self._may_open(record, opening):
                        start = TurnStart(
                            turn_id=TurnId(self._ids.uuid()),
                            node=self._node,
                            planning=profile.planning_enabled,
                        )
                try:
                    rows = await record.try_once(
                        replace(message, earlier=earlier, start=start), seen=seen
                    )
                except ConcurrentAppend:
                    continue
            if earlier is not None:
                return Received(message_id=message_id, seq=earlier[0], repeated=True)
            receipt = next(r for r in rows if r.type == UserMessageReceived.TYPE)
            return Received(message_id=message_id, seq=receipt.seq, repeated=False)

    async def _may_open(self, record: Record, opening: ExitStack) -> bool:
        """Whether a message may open a turn at once; else it waits in the log for its turn.

        Args:
            opening: keeps the place that it takes for that.
        """
        if self._runs.draining:
            return False
        if record.session.turn is not None:
            return True  # it waits for that one, or goes into it
        opening.enter_context(self._runs.places.opening(record.id))
        return await self._runs.places.take(record.session.owner, record.id)

    async def ended_here(self, session_id: SessionId) -> None:
        """Wait until this process runs no turn of the session."""
        await self._runs.ended(session_id)

    async def stop(self, session_id: SessionId, *, by: str, turn_id: TurnId | None = None) -> bool:
        """Stop the open turn on whichever node runs it, or withdraw the message that waits for its place.

        Gives whether there was something to stop.

        Args:
            turn_id: the only turn that is meant; None for whichever it is.

        Raises:
            NotFound: no such session.
        """
        record = await conversation(self._records, session_id)
        turn = record.session.turn
        running = turn is not None and turn_id in (None, turn.id)
        appended = await record.execute(RequestStop(by=by, turn_id=turn_id))
        turn = record.session.turn
        if turn.parked if turn is not None else self._runs.places.waits(session_id):
            self._runs.wake(session_id)  # it waited, for a person or for its place: nobody runs it
        return running or bool(appended)

    async def change(self, session_id: SessionId, change: Change) -> Session:
        """Rename, pin, switch the profile.

        Raises:
            NotFound: no such session.
            BadInput: there is no such profile; then nothing is changed.
        """
        record = await conversation(self._records, session_id)
        commands: list[Command] = []
        if change.profile_id is not None:
            await self._require_profile(change.profile_id)
            commands.append(SwitchProfile(to_profile=change.profile_id))
        if change.name is not None:
            commands.append(RenameSession(name=change.name))
        if change.pinned is not None:
            commands.append(PinSession(pinned=change.pinned))
        for command in commands:
            await record.execute(command)
        return record.session

    async def delete(self, session_id: SessionId) -> None:
        """Delete the session; its log stays.

        Raises:
            NotFound: no such session.
        """
        record = await conversation(self._records, session_id)
        await record.execute(DeleteSession(partial_replies=await record.partial_replies()))

    async def _require_profile(self, profile_id: str) -> None:
        if await self._profiles.files.get(profile_id) is None:
            entries = await self._profiles.files.all()
            errors = [entry.error for entry in entries if entry.id == profile_id and entry.error]
            why = f"is broken: {errors[0]}" if errors else f"there is no profile {profile_id!r}"
            raise BadInput("profile_id", why)
