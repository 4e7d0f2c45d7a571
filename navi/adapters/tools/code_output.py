"""The output of code and of commands: its beginning and its end for the model, the whole in a session file."""

import asyncio
import codecs
import os
from pathlib import Path

from navi.adapters.tools.kept_outputs import kept_path
from navi.adapters.tools.workspace import PathForbidden, Workspace
from navi.domain.tools.tool_output import clean_text
from navi.domain.vocabulary.ids import CallId

# What the model is shown of a longer one: about 6,000 tokens. Errors stand at the end.
BEGINNING, END = 8 * 1024, 16 * 1024  # characters
KEPT_BYTES = 64 * 1024 * 1024
WRITTEN_BYTES = 256 * 1024  # at a time
# What comes after that is thrown away at this pace, so that it costs the server next to nothing.
REST_SECONDS = 0.002  # for a piece of output


class CodeOutput:
    """Takes output as it comes; holds a bounded part of it in memory."""

    def __init__(self, workspace: Path, call_id: CallId) -> None:
        self._workspace = workspace
        self._path = kept_path(call_id)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._beginning = ""
        self._end = ""
        self._file: int | None = None
        self._lost: str | None = None  # why the whole is not kept
        self._unwritten = bytearray()
        self._kept = self._taken = 0  # bytes of the clean text

    async def take(self, output: bytes) -> str:
        """Take a piece; gives the text that it brought."""
        if self._kept >= KEPT_BYTES:
            await asyncio.sleep(REST_SECONDS)
        return await self._take(output, final=False)

    async def finish(self) -> str:
        """All has come: gives the last characters, and closes the file."""
        text = await self._take(b"", final=True)
        await self._write()
        if self._file is not None:
            await asyncio.to_thread(os.close, self._file)
            self._file = None
        return text

    @property
    def truncated(self) -> bool:
        """Whether ``text`` leaves something out."""
        return len(self._end) > END

    def text(self) -> str:
        """What the model reads."""
        if not self.truncated:
            return self._beginning + self._end
        shown = self._end[-END:]
        left_out = self._taken - len(self._beginning.encode()) - len(shown.encode())
        return f"{self._beginning}\n[... {left_out:,} bytes left out; {self._where()} ...]\n{shown}"

    def text_with(self, end: str) -> str:
        """What the model reads, with a last line that says how it ended."""
        text = self.text()
        return f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}[{end}]"

    def _where(self) -> str:
        if self._lost is not None:
            return f"they could not be kept: {self._lost}"
        if self._kept < self._taken:
            return f"the first {self._kept:,} bytes of the output are in the file {self._path}"
        return f"the whole output is in the file {self._path}"

    async def _take(self, output: bytes, *, final: bool) -> str:
        text = clean_text(self._decoder.decode(output, final))
        raw = text.encode()
        self._taken += len(raw)
        if len(self._unwritten) + self._kept < KEPT_BYTES and self._lost is None:
            room = KEPT_BYTES - self._kept - len(self._unwritten)
            self._unwritten += raw[:room]
        room = BEGINNING - len(self._beginning)
        self._beginning += text[:room]
        self._end += text[room:] if room > 0 else text
        if len(self._end) > END and len(self._unwritten) >= WRITTEN_BYTES:
            await self._write()
        if len(self._end) > 8 * END:
            self._end = self._end[-2 * END :]
        return text

    async def _write(self) -> None:
        if self.truncated and self._unwritten and self._lost is None:
            data = bytes(self._unwritten)
            self._unwritten.clear()
            try:
                await asyncio.to_thread(self._write_down, data)
            except PathForbidden as error:
                self._lost = str(error)
            except OSError as error:
                self._lost = error.strerror or str(error)
            else:
                self._kept += len(data)

    def _write_down(self, data: bytes) -> None:
        if self._file is None:
            with Workspace(self._workspace) as workspace:
                self._file = workspace.create(self._path)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._file, rest) :]
