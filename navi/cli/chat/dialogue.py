"""Chat in one session on a terminal: send messages, show turns."""

import asyncio
import signal
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from rich.console import Console

from navi.adapters.system import RandomIds
from navi.application.reading.await_turn import AwaitedTurn, TurnOutcome
from navi.cli.chat.conversation import (
    Connected,
    Conversation,
    DecisionRefused,
    Disconnected,
    EventReceived,
    MessageRefused,
    Postponed,
    Update,
)
from navi.cli.chat.live_view import LiveView
from navi.cli.chat.person import Person
from navi.cli.chat.turn_progress import PersonText, StatusLine, TurnProgress, question
from navi.cli.shared.command import CommandFailed
from navi.cli.shared.remote import RemoteNavi
from navi.domain.vocabulary.events import (
    AgentEvent,
    ApprovalDecided,
    ApprovalRequested,
    Envelope,
    MessageDelivered,
    TurnCompleted,
    TurnFailed,
    TurnStopped,
    UserMessageReceived,
)
from navi.domain.vocabulary.ids import CallId, MessageId

Locate = Callable[[], Awaitable[str | None]]  # navi's address; None where it does not run


async def max_iterations(navi: RemoteNavi, profile_id: str) -> int | None:
    """How many model calls a turn of the profile may make; None where navi does not say."""
    profiles = {profile.id: profile for profile in await navi.profiles()}
    profile = profiles.get(profile_id)
    return None if profile is None else profile.max_iterations


class Dialogue:
    """Shows a session's events, and waits for the turns of sent messages."""

    def __init__(
        self,
        conversation: Conversation,
        console: Console,
        *,
        lost: Callable[[str], None] | None = None,
        person: Person | None = None,
        waits: Callable[[ApprovalRequested], None] | None = None,
    ) -> None:
        """A dialogue in which nothing was said yet; to be closed (`aclose`).

        Args:
            person: asked about tool calls that wait for a decision; None where nobody is there.
            waits: told of them, where the console shows nothing.
            lost: told why a connection was lost, where the console shows nothing.
        """
        self.conversation = conversation
        self.progress = TurnProgress(time.monotonic)
        self._updates = conversation.updates()
        self._view = LiveView(console, self.progress)
        self._lost = lost or self._show_lost
        self._person = person
        self._waits = waits
        self._undecided: dict[CallId, ApprovalRequested] = {}
        self._answered: set[CallId] = set()  # of those: a decision was sent, or is left to others
        self._sent: set[CallId] = (
            set()
        )  # decisions that are to be logged: then comes the next question
        self._asking: tuple[CallId, asyncio.Task[None]] | None = None
        self._terminal = asyncio.Lock()
        self._head = self._seen = 0
        self._taken_back = False
        self._ids = RandomIds()

    async def aclose(self) -> None:
        """End the connection; whoever asks next makes another one."""
        await self._updates.aclose()
        self._updates = self.conversation.updates()

    async def ask(self, content: str) -> TurnOutcome:
        """Send a message and show events until its turn has ended.

        Raises:
            CommandFailed: navi does not take the message, or has gone.
        """
        message_id = MessageId(self._ids.uuid())
        self.progress.wait()
        awaited: AwaitedTurn | None = None
        others = False  # whether somebody else was answered since the question was typed
        async with self._view.live(), self._stopping_at_ctrl_c(), self._following() as updates:
            await self.conversation.say(content, message_id=message_id)
            async for update in updates:
                self._show(update)
                match update:
                    case MessageRefused(message=message):
                        raise CommandFailed(message)
                    case EventReceived(envelope=envelope):
                        event = envelope.event
                        if isinstance(event, UserMessageReceived):
                            if event.message_id == message_id:
                                awaited = AwaitedTurn(envelope.seq)
                            else:
                                others = True
                                self._view.show(PersonText(event.content))
                        elif awaited is not None:
                            if others and _delivers(event, awaited.message_seq):
                                self._view.show(PersonText(content))
                            if outcome := awaited.see(envelope):
                                return outcome
                    case _:
                        pass
        raise AssertionError("updates have no end")

    async def follow_open_turn(self) -> None:
        """Show the turn that is already running, if any, until it ends."""
        self.progress.wait()
        async with self._view.live(), self._stopping_at_ctrl_c(), self._following() as updates:
            async for update in updates:
                self._show(update)
                match update:
                    case Connected(running=False):
                        return
                    case EventReceived(envelope=envelope) if isinstance(
                        envelope.event, TurnCompleted | TurnStopped | TurnFailed
                    ):
                        return
                    case _:
                        pass

    @asynccontextmanager
    async def _following(self) -> AsyncGenerator[AsyncGenerator[Update, None], None]:
        """What happens. Where it was given up, none of it is left to whoever asks next."""
        try:
            yield self._updates
        except (CommandFailed, asyncio.CancelledError):
            # A generator that an exception has left is at its end, and so would be the next question.
            self.conversation.forget_unconfirmed()
            await self.aclose()
            raise

    def _show(self, update: Update) -> None:
        match update:
            case EventReceived(envelope=envelope):
                for shown in self.progress.see(envelope):
                    self._view.show(shown)
                self._seen = envelope.seq
                self._look_what_waits(envelope)
            case Connected(seq=seq):
                self._head = seq
            case DecisionRefused(message=message):
                self._view.show(StatusLine(text=message, good=False))
                self._answered.clear()
                self._sent.clear()
            case Postponed(message=message):
                self._view.show(StatusLine(text=f"{message}; sending it again", good=False))
            case Disconnected(reason=reason):
                self._lost(reason)
            case _:
                pass
        self._ask_next()

    def _look_what_waits(self, envelope: Envelope) -> None:
        match envelope.event:
            case ApprovalRequested(call_id=call_id) as requested:
                self._undecided[call_id] = requested
                if self._waits is not None:
                    self._waits(requested)
                elif self._person is None:
                    for shown in question(requested, answered_here=False):
                        self._view.show(shown)
            case ApprovalDecided(call_id=call_id):
                self._undecided.pop(call_id, None)
            case _:
                pass

    def _ask_next(self) -> None:
        """Ask about the next call; a question that somebody else has answered meanwhile ends."""
        if self._asking is not None:
            call_id, task = self._asking
            if call_id not in self._undecided:
                task.cancel()
            elif not task.done():
                return
            self._asking = None
        # What came before is only known once all of it was seen.
        if self._person is None or self._seen < self._head:
            return
        if self._sent & self._undecided.keys():
            return
        open_calls = (r for id_, r in self._undecided.items() if id_ not in self._answered)
        requested = next(open_calls, None)
        if requested is not None:
            asking = self._ask_about(requested, self._person)
            task = asyncio.create_task(asking, name="ask the person")
            self._asking = (requested.call_id, task)

    async def _ask_about(self, requested: ApprovalRequested, person: Person) -> None:
        async with self._terminal:
            for shown in question(requested, answered_here=True):
                self._view.show(shown)
            with self._view.paused():
                said = await person(requested)
        self._answered.add(requested.call_id)
        match said:
            case "later":
                text = f"left undecided; `navi approvals allow {requested.call_id}` lets it run"
                self._view.show(StatusLine(text=text, good=False))
            case "stop":
                await self.conversation.stop()
            case decision:
                self._sent.add(requested.call_id)
                await self.conversation.decide(requested.call_id, decision)
        self._asking = None
        self._ask_next()

    async def _ask_no_more(self) -> None:
        if self._asking is not None:
            _, task = self._asking
            task.cancel()
            self._asking = None
        async with self._terminal:
            pass  # the question is gone from the screen

    def _show_lost(self, reason: str) -> None:
        self._view.show(StatusLine(text=f"{reason}; connecting again", good=False))

    @asynccontextmanager
    async def _stopping_at_ctrl_c(self) -> AsyncGenerator[None, None]:
        """Ctrl-C stops the turn; a second one ends the command."""
        loop = asyncio.get_running_loop()
        main = asyncio.current_task()
        assert main is not None  # noqa: S101 - a coroutine that runs has a task
        asked = asyncio.Event()

        def take() -> None:
            if asked.is_set():
                main.cancel()
            asked.set()

        async def stop() -> None:
            await asked.wait()
            self._view.show(StatusLine(text="stopping; Ctrl-C again leaves at once", good=False))
            if not await self.conversation.stop():
                self._taken_back = True
                main.cancel()

        loop.add_signal_handler(signal.SIGINT, take)
        stopping = asyncio.create_task(stop(), name="stop at Ctrl-C")
        try:
            yield
        except asyncio.CancelledError:
            if self._taken_back:
                self._taken_back = False
                main.uncancel()  # the chat goes on
                raise CommandFailed("the message was not sent: there was no connection") from None
            if asked.is_set():
                raise KeyboardInterrupt from None
            raise
        finally:
            await self._ask_no_more()
            loop.remove_signal_handler(signal.SIGINT)
            stopping.cancel()
            await asyncio.wait({stopping})


def _delivers(event: AgentEvent, message_seq: int) -> bool:
    return isinstance(event, MessageDelivered) and event.message_seq == message_seq
