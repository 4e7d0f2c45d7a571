"""Take a message from a program that keeps conversations by itself into the session it belongs to."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace

from navi.application.commands.fork_session import SessionForker
from navi.application.commands.manage_sessions import ManageSessions
from navi.application.doors.find_continuation import find_continuation
from navi.application.reading.read_session import open_fold
from navi.application.uploads.manage_uploads import ManageUploads
from navi.domain.log.secrets import Secrets
from navi.domain.reading.conversation import Mark, beginning
from navi.domain.session.commands import TakeInConversation
from navi.domain.vocabulary.errors import (
    ConcurrentAppend,
    NaviError,
    NotFound,
    ReceiptUnknown,
    Unavailable,
)
from navi.domain.vocabulary.events import Said
from navi.domain.vocabulary.ids import MessageId, Owner, SessionId
from navi.domain.vocabulary.principal import Principal
from navi.ports.log_partitions import PartitionedLog
from navi.ports.read_models import ReadModels
from navi.projections.conversation import Conversation


class Picture(Struct, frozen=True, kw_only=True):
    """A picture of a message; where its name is taken it gets a number."""

    name: str
    data: bytes


class Asked(Struct, frozen=True, kw_only=True):
    """What a program asks.

    Attributes:
        profile_id: of one that there is.
        history: what was said before, as the program has kept it.
        content: the message that is to be answered.
        instructions: what its system messages say; empty where it sends none.
        conversation_id: by which it knows the conversation; None where it does not say.
        planning: whether the turn may plan, where the profile does.
        plain: it wants the answer for itself, as a title for its list: in a session for that alone.
        pictures: of the message; they become uploads that it names.
    """

    profile_id: str
    history: tuple[Said, ...]
    content: str
    instructions: str
    conversation_id: str | None
    planning: bool
    plain: bool = False
    pictures: tuple[Picture, ...] = ()


class Taken(Struct, frozen=True, kw_only=True):
    """The message is in the log; ``seq`` is of its event."""

    session_id: SessionId
    message_id: MessageId
    seq: int


class _Place(Struct, frozen=True, kw_only=True):
    """Where a message goes.

    Attributes:
        behind: the mark that it goes on from, where that is not the session's own.
        as_of: the event as of which the session was found; None where the program named it.
    """

    session_id: SessionId
    behind: Mark | None = None
    as_of: int | None = None


class TakeMessage:
    """Takes messages in, each into the session whose conversation it continues."""

    def __init__(
        self,
        event_log: PartitionedLog,
        read_models: ReadModels,
        sessions: ManageSessions,
        fork_session: SessionForker,
        uploads: ManageUploads,
        secrets: Secrets,
    ) -> None:
        self._log = event_log
        self._read_models = read_models
        self._sessions = sessions
        self._fork_session = fork_session
        self._uploads = uploads
        self._secrets = secrets
        # Two messages at once that go on from the same words: the second finds what the first has made.
        # In another process it is refused there, and finds another place (``_Place.as_of``).
        self._locks: WeakValueDictionary[Owner, asyncio.Lock] = WeakValueDictionary()

    async def __call__(
        self, principal: Principal, asked: Asked, *, session_id: SessionId | None
    ) -> Taken:
        """Take a message in; one that is refused leaves no session behind that was made for it.

        Args:
            session_id: the session that the program names; None where its conversation tells.

        Raises:
            NotFound: no such session, or not theirs.
            TooManyWaiting: the session's queue is full.
            EventTooLarge: the conversation is too much to be taken in.
            OutOfBudget: nothing is left to answer it with; no session is made for it.
            UploadsFull: the session has no room for its pictures.
            ReceiptUnknown: the message may be in the log; it has no id to send it again by.
        """
        # As the log has it: what is masked there is compared with what the program still knows.
        history = tuple(
            replace(said, content=self._secrets.mask(said.content).text) for said in asked.history
        )
        instructions = self._secrets.mask(asked.instructions).text or None
        asked = replace(asked, history=history, instructions=instructions or "")
        lock = self._locks.setdefault(principal.user_id, asyncio.Lock())
        moved_on: set[SessionId] = set()
        async with lock:
            while True:
                try:
                    return await self._take(principal, asked, session_id, moved_on)
                except ConcurrentAppend as error:  # another process was faster
                    moved_on.add(SessionId(error.session_id))

    async def _take(
        self,
        principal: Principal,
        asked: Asked,
        session_id: SessionId | None,
        moved_on: Collection[SessionId],
    ) -> Taken:
        """As the call; raises ConcurrentAppend where the session that it found has moved on since."""
        async with AsyncExitStack() as made:
            if session_id is not None:
                known = await self._sessions.own(principal, session_id)
                place = await self._take_in(_Place(session_id=known), asked, ())
            elif asked.plain:
                place = await self._begin(principal, asked, made)
            else:
                place = await self._continued(principal, asked, made, moved_on)
            files = await self._keep(place.session_id, asked.pictures)
            try:
                received = await self._sessions.receive(
                    place.session_id,
                    content=asked.content,
                    files=files,
                    mode="queue",
                    message_id=None,
                    planning=asked.planning,
                    behind=place.behind,
                    as_of=place.as_of,
                )
            except Unavailable as error:
                raise ReceiptUnknown(
                    f"no word of a message to session {place.session_id}"
                ) from error
        return Taken(session_id=place.session_id, message_id=received.message_id, seq=received.seq)

    async def _keep(self, session_id: SessionId, pictures: Sequence[Picture]) -> tuple[str, ...]:
        """Make pictures uploads of the session; gives what they are called there."""
        if not pictures:
            return ()
        await self._sessions.check_message(session_id)  # clients send what is refused again
        async with self._uploads.receive(session_id) as incoming:
            for picture in pictures:
                await incoming.begin(picture.name, media_type=None)
                await incoming.write(picture.data)
                await incoming.end()
            return tuple(upload.name for upload in await incoming.keep())

    async def _begin(self, principal: Principal, asked: Asked, made: AsyncExitStack) -> _Place:
        await self._sessions.check_day(principal.user_id)
        session = await self._sessions.create(
            profile_id=asked.profile_id, name=None, owner=principal.user_id, plain=asked.plain
        )
        await made.enter_async_context(self._deleted_if_refused(session.id))
        as_of = await self._sessions.take_in(
            session.id,
            TakeInConversation(
                messages=asked.history,
                instructions=asked.instructions,
                conversation_id=None if asked.plain else asked.conversation_id,
            ),
            as_of=session.seq,
        )
        return _Place(session_id=session.id, as_of=as_of)

    async def _continued(
        self,
        principal: Principal,
        asked: Asked,
        made: AsyncExitStack,
        moved_on: Collection[SessionId],
    ) -> _Place:
        """Where the conversation goes on: in a session that knows it, a fork of one, or a new one."""
        found = await find_continuation(
            self._log,
            self._read_models,
            owner=principal.user_id,
            start=beginning(principal.user_id, asked.conversation_id),
            history=asked.history,
            moved_on=moved_on,
        )
        if found is None:
            return await self._begin(principal, asked, made)
        session_id = await self._sessions.own(principal, found.session_id)
        place = _Place(session_id=session_id, behind=found.behind, as_of=found.as_of)
        if found.fork_at is not None:
            await self._sessions.check_day(principal.user_id)
            forked = (await self._fork_session(session_id, at=found.fork_at)).session
            place = _Place(session_id=forked.id, as_of=forked.seq)
            await made.enter_async_context(self._deleted_if_refused(forked.id))
        return await self._take_in(place, asked, asked.history[found.known :])

    @asynccontextmanager
    async def _deleted_if_refused(self, session_id: SessionId) -> AsyncGenerator[None, None]:
        """Delete a session that was made for a message, where the message is refused."""
        try:
            yield
        except (Unavailable, ConcurrentAppend):
            raise  # the message may stand in the log, or somebody else's
        except NaviError:
            with suppress(NotFound, Unavailable):
                await self._sessions.delete(session_id)
            raise

    async def _take_in(self, place: _Place, asked: Asked, unknown: tuple[Said, ...]) -> _Place:
        """What the session does not know yet: words, instructions, another profile."""
        fold = await open_fold(
            self._log, self._read_models, Conversation(), place.session_id, rows=False
        )
        # The agent itself may have switched since: the program names the same profile all along.
        switched = fold.state.profile_id != asked.profile_id
        as_of = await self._sessions.take_in(
            place.session_id,
            TakeInConversation(messages=unknown, instructions=asked.instructions),
            to_profile=asked.profile_id if switched else None,
            as_of=place.as_of,
        )
        return replace(place, as_of=as_of)
