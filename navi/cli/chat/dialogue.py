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
    Disconnected,
    EventReceived,
    MessageRefused,
    Update,
)
from navi.cli.chat.live_view import LiveView
from navi.cli.chat.remote import RemoteNavi
from navi.cli.chat.turn_progress import Asked, StatusLine, TurnProgress
from navi.cli.command import CommandFailed
from navi.domain.events import (
    MessageDelivered,
    TurnCompleted,
    TurnFailed,
    TurnStopped,
    UserMessageReceived,
)
from navi.domain.ids import MessageId

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
        updates: AsyncGenerator[Update, None],
        console: Console,
        *,
        lost: Callable[[str], None] | None = None,
    ) -> None:
        """A dialogue in which nothing was said yet.

        Args:
            lost: told why a connection was lost, where the console shows nothing.
        """
        self.conversation = conversation
        self.progress = TurnProgress(time.monotonic)
        self._updates = updates
        self._view = LiveView(console, self.progress)
        self._lost = lost or self._show_lost
        self._taken_back = False
        self._ids = RandomIds()

    async def ask(self, content: str) -> TurnOutcome:
        """Send a message and show events until its turn has ended.

        Raises:
            Failed: navi does not take the message, or has gone.
        """
        message_id = MessageId(self._ids.uuid())
        self.progress.wait()
        awaited: AwaitedTurn | None = None
        others = False  # whether somebody else was answered since the question was typed
        async with self._view.live(), self._stopping_at_ctrl_c():
            await self.conversation.say(content, message_id=message_id)
            async for update in self._updates:
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
                                self._view.show(Asked(event.content))
                        elif isinstance(event, MessageDelivered) and others:
                            if awaited is not None and awaited.message_seq == event.message_seq:
                                self._view.show(Asked(content))
                        elif awaited is not None and (outcome := awaited.see(envelope)):
                            return outcome
                    case _:
                        pass
        raise AssertionError("updates have no end")

    async def follow_open_turn(self) -> None:
        """Show the turn that is already running, if any, until it ends."""
        self.progress.wait()
        async with self._view.live(), self._stopping_at_ctrl_c():
            async for update in self._updates:
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

    def _show(self, update: Update) -> None:
        match update:
            case EventReceived(envelope=envelope):
                for shown in self.progress.see(envelope):
                    self._view.show(shown)
            case Disconnected(reason=reason):
                self._lost(reason)
            case _:
                pass

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
                raise CommandFailed("the message was not sent: there was no connection") from None
            if asked.is_set():
                raise KeyboardInterrupt from None
            raise
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            stopping.cancel()
            await asyncio.wait({stopping})
