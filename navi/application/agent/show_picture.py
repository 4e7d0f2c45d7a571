"""Put a picture before a model that sees: a file of a message, or what a tool asks for."""

import asyncio
from collections.abc import Iterable

from msgspec import Struct

from navi.application.agent.model_calls.recorders import InTurn
from navi.application.session.retry import with_retry
from navi.domain.context.messages import Message
from navi.domain.uploads import Upload, is_picture
from navi.domain.vocabulary.events import ImageShown
from navi.domain.vocabulary.ids import MessageId
from navi.ports.pictures import Pictures
from navi.ports.text_store import TextStore
from navi.race import race


class ShowPicture:
    """Prepares a picture, keeps it by content, and logs that it is shown."""

    def __init__(self, pictures: Pictures, texts: TextStore) -> None:
        self._pictures = pictures
        self._texts = texts

    async def __call__(self, recorder: InTurn, path: str, *, call_id: str) -> ImageShown | None:
        """Show a picture of the session's directory from the next model call on.

        Args:
            call_id: of the tool call, or the id of the message that it came with.

        Returns:
            What was logged; None where the actor is to halt before the picture is prepared.

        Raises:
            NotShown: it cannot be.
            Fenced: the turn is another's; nothing more may be done.
        """
        picture = await race(
            self._pictures.prepare(recorder.session_id, path), _halted(recorder.halt)
        )
        if picture is None:
            return None
        (kept,) = await with_retry(lambda: self._texts.put(picture.base64))
        shown = ImageShown(
            call_id=call_id,
            path=path,
            sha256=picture.sha256,
            media_type=picture.media_type,
            width=picture.width,
            height=picture.height,
            base64_sha256=kept,
        )
        await recorder(shown)
        return shown


class DuePicture(Struct, frozen=True):
    """A picture that a message names."""

    message_id: MessageId
    path: str


def due_pictures(rows: Iterable[Message], uploads: Iterable[Upload]) -> list[DuePicture]:
    """The pictures among uploads that messages name and that do not stand beside them in the context."""
    messages = list(rows)
    pictures = {upload.name: upload.path for upload in uploads if is_picture(upload)}
    there = {message.picture.path for message in messages if message.picture}
    return [
        DuePicture(message.message_id, path)
        for message in messages
        if message.message_id and message.files
        for path in (pictures[name] for name in message.files if name in pictures)
        if path not in there
    ]


async def _halted(halt: asyncio.Event) -> None:
    await halt.wait()
