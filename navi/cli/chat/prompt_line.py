"""The line that a person writes in a chat: several lines, completion, history."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import AnyFormattedText
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.bindings.completion import generate_completions

CONTINUED = "… "  # in front of the lines behind the first

_COMMAND = re.compile(r"/[^/.\s]*(?:\s|$)")

# What may stand behind a command, each with what it is; for "" the names of files.
Known = Callable[[str], Mapping[str, str]]


def is_command(line: str) -> bool:
    """Whether a line is for the chat itself; one that begins with a path is not.

    A path has another slash or a dot. All else is a command, so that a mistyped one reaches no model.
    """
    return _COMMAND.match(line) is not None


class Completions(Completer):
    """Commands at the beginning of a line, what they take, and names of files anywhere.

    What there is comes from `known`, which is asked at each key and has to answer at once.
    """

    def __init__(self, commands: Sequence[str], known: Known) -> None:
        """Name the commands, and what they take."""
        self._commands = commands
        self._known = known

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        """What may come in place of the word that is being written."""
        del complete_event
        text = document.text_before_cursor
        meanings = self._known(text.partition(" ")[0] if text.startswith("/") else "")
        for word, replaced in completed(text, self._commands, self._known):
            yield Completion(word, start_position=-replaced, display_meta=meanings.get(word))


def completed(text: str, commands: Sequence[str], known: Known) -> list[tuple[str, int]]:
    """The words that may come, each with how many characters before the cursor it replaces."""
    command, blank, rest = text.partition(" ")
    if text.startswith("/") and "\n" not in text:
        if not blank:
            return [(name, len(text)) for name in commands if name.startswith(text)]
        return [(word, len(rest)) for word in known(command) if word.startswith(rest)]
    last = text.split()[-1] if text and not text[-1].isspace() else ""
    return [(name, len(last)) for name in known("") if last and name.startswith(last)]


def chat_lines(history: History, completer: Completer) -> PromptSession[str]:
    """What reads lines: Enter sends, Alt-Enter begins another line, Tab completes."""
    keys = KeyBindings()

    @keys.add("enter")
    def send(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("escape", "enter")
    @keys.add("escape", "c-j")  # typed ahead: the terminal has made a line break of Enter by then
    def go_on(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("tab")
    def complete(event: KeyPressEvent) -> None:
        # A lone completion at once: the usual way to ask is a task, and Enter may come before it has run.
        buffer = event.current_buffer
        if buffer.complete_state is not None:  # the word that the menu put in completes only itself
            generate_completions(event)
            return
        asked = CompleteEvent(completion_requested=True)
        found = list(completer.get_completions(buffer.document, asked))
        if len(found) == 1:
            buffer.apply_completion(found[0])
        else:
            generate_completions(event)

    def continued(width: int, line: int, wrapped: int) -> AnyFormattedText:
        del line, wrapped
        return CONTINUED.rjust(width)

    del send, go_on, complete
    return PromptSession(
        history=history,
        completer=completer,
        complete_while_typing=False,
        key_bindings=keys,
        multiline=True,
        prompt_continuation=continued,
    )
