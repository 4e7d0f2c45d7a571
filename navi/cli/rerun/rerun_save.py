"""Save a session as a regression test: its export, and a test that reruns it."""

import asyncio
import re
from pathlib import Path

from msgspec import Struct

from navi import __version__
from navi.adapters.files.export_file import whole_file
from navi.adapters.signing import open_signer
from navi.adapters.system import SystemClock
from navi.application.audit.export_sessions import ExportSessions
from navi.bootstrap.store import Store
from navi.cli.audit.export import write
from navi.cli.shared.command import WrongUsage
from navi.cli.shared.owners import note_export
from navi.domain.vocabulary.ids import SessionId
from navi.settings import Settings

READABLE = 0o644  # it goes into a repository

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")

TEST = '''\
"""Session {session_id} runs again as it was recorded; made by `navi rerun --save`.

Needs pytest, navi {version} or later in the same environment, and {name}.jsonl beside this file; no server, no
model, no tool, no network, and none of your settings or profiles. Where it fails, the message says which event comes out
another way and how: navi has changed what it does, or the recording was changed. Where the change is meant,
record anew: navi rerun SESSION --save DIR/NAME.

To run your own tools on the calls of this recording, and to judge them by a profile of yours:

    from navi.bootstrap.try_mine import try_file

    def test_my_tools_give_what_they_gave() -> None:
        try_file(RECORDING, tools=Path("tools"), profiles=Path("profiles"), profile_id="mine")
"""

from pathlib import Path

from navi.bootstrap.rerun import rerun_file

RECORDING = Path(__file__).with_name("{name}.jsonl")


def test_{function}_runs_again_as_recorded() -> None:
    rerun_file(RECORDING)
'''


class Saved(Struct, frozen=True, kw_only=True):
    """The files of a regression test."""

    recording: str
    test: str


def files_of(place: Path) -> tuple[Path, Path]:
    """Where a recording and its test go.

    Raises:
        WrongUsage: the name cannot be one, or the files are there already.
    """
    if _NAME.fullmatch(place.name) is None:
        raise WrongUsage(f"--save: {place.name!r} is no name of letters, digits, - and _")
    recording = place.with_name(f"{place.name}.jsonl")
    test = place.with_name(f"test_{place.name.replace('-', '_')}.py")
    for path in (recording, test):
        if path.exists():
            raise WrongUsage(f"--save: {path} is there already")
    return recording, test


async def save(settings: Settings, store: Store, session_id: SessionId, place: Path) -> Saved:
    """Write the session's export and the test that runs it again.

    Raises:
        WrongUsage: see `files_of`.
        OSError: they cannot be written.
    """
    recording, test = files_of(place)
    signer = await asyncio.to_thread(open_signer, settings.keys_dir)
    exporting = ExportSessions(
        store.log,
        store.texts,
        signer,
        SystemClock(),
        log_id=store.log.log_id,
        version=__version__,
    )
    await note_export(settings, store, [session_id])
    await asyncio.to_thread(place.parent.mkdir, parents=True, exist_ok=True)
    with whole_file(recording) as file:
        await write(exporting.export([session_id]), file)
    function = re.sub(r"\W", "_", place.name.lower())
    text = TEST.format(
        session_id=session_id, version=__version__, name=place.name, function=function
    )
    await asyncio.to_thread(test.write_text, text, "utf-8")
    await asyncio.to_thread(recording.chmod, READABLE)
    return Saved(recording=str(recording), test=str(test))
