"""Profiles as folders of files, reloaded for every call.

A file of the user's folder takes the place of the built-in file of the same profile and name: a
folder ``assistant`` with a ``system.md`` alone changes what the assistant is told and nothing else.
"""

import asyncio
import re
import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import structlog
from msgspec import Struct
from msgspec.structs import replace

from navi.adapters.gathered import Gathered
from navi.domain.agent.profile import Profile, parse_profile
from navi.domain.vocabulary.errors import BadInput
from navi.ports.profiles import ProfileEntry

BUILT_IN = Path(__file__).parent / "builtin"
BUILT_IN_SOURCE = "built-in"
FILES = ("config.json", "system.md", "subagent.md")
MAX_FILE_BYTES = 512 * 1024
MAX_PROFILES = 1_000
NO_PROFILE = (".", "_")  # what the names of folders that are none begin with

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")

log = structlog.get_logger()


class _Version(Struct, frozen=True, kw_only=True):
    """What was found in the files, and what was made of it."""

    files: Mapping[str, bytes]
    entry: ProfileEntry


class FolderProfiles:
    """The port ``Profiles`` over the user's directory; it may be missing.

    Args:
        model: what every profile is to use in place of its own model; None for its own.
    """

    def __init__(self, directory: Path, *, model: str | None = None) -> None:
        self._directory = directory
        self._model = model
        self._versions: dict[str, _Version] = {}
        self._reading = threading.Lock()  # calls come from several threads at once
        self._found = Gathered(self._find)

    async def get(self, profile_id: str) -> Profile | None:
        """The profile, in its last good version; None where there is none."""
        if _ID.fullmatch(profile_id) is None or profile_id.startswith(NO_PROFILE):
            return None
        entry = await self._found.ask(profile_id)
        profile = entry.profile if entry is not None else None
        if profile is None or self._model is None:
            return profile
        return replace(profile, model=self._model)

    async def all(self) -> Sequence[ProfileEntry]:
        """All of them, broken ones too, in order of id."""
        return await asyncio.to_thread(self._entries)

    async def _find(self, ids: Collection[str]) -> Mapping[str, ProfileEntry | None]:
        return await asyncio.to_thread(lambda: {id_: self._entry(id_) for id_ in ids})

    def _entries(self) -> tuple[ProfileEntry, ...]:
        names = sorted({*_folders(BUILT_IN), *_folders(self._directory)})
        entries = (self._entry(name) for name in names)
        return tuple(entry for entry in entries if entry is not None)

    def _entry(self, profile_id: str) -> ProfileEntry | None:
        own = self._directory / profile_id
        if _ID.fullmatch(profile_id) is None:
            error = "the folder's name is no id: 1 to 64 characters of A-Z, a-z, 0-9, _ and -"
            return ProfileEntry(id=profile_id, profile=None, source=str(own), error=error)
        with self._reading:
            before = self._versions.get(profile_id)
            try:
                changes = _read(own)
            except (BadInput, OSError) as error:
                return _broken(profile_id, before, source=str(own), error=_words(error))
            files = _read(BUILT_IN / profile_id) | changes
            if not files:
                self._versions.pop(profile_id, None)
                return None
            # The files are compared and not their times: they are small, and an edit within the
            # clock's tick of the last one has the same time.
            if before is not None and before.files == files:
                return before.entry
            source = str(own) if changes else BUILT_IN_SOURCE
            try:
                entry = ProfileEntry(id=profile_id, profile=_parse(files), source=source)
            except BadInput as error:
                log.warning("profile_broken", profile_id=profile_id, error=str(error))
                entry = _broken(profile_id, before, source=source, error=str(error))
            self._versions[profile_id] = _Version(files=files, entry=entry)
            return entry


def _broken(profile_id: str, before: _Version | None, *, source: str, error: str) -> ProfileEntry:
    """The entry of a profile whose files are broken: what was good before goes on serving.

    Where nothing was, nothing does, a built-in one of that name least of all: the broken files may have
    asked for fewer tools. Sessions then go on as the log knows them.
    """
    profile = None if before is None else before.entry.profile
    return ProfileEntry(id=profile_id, profile=profile, source=source, error=error)


def _words(error: BadInput | OSError) -> str:
    return str(error) if isinstance(error, BadInput) else error.strerror or "cannot be read"


def _parse(files: Mapping[str, bytes]) -> Profile:
    return parse_profile(
        files.get("config.json", b"{}"),
        system=_prompt(files, "system.md"),
        subagent=_prompt(files, "subagent.md"),
    )


def _prompt(files: Mapping[str, bytes], name: str) -> str:
    try:
        return files.get(name, b"").decode().strip()
    except UnicodeDecodeError as error:
        raise BadInput(name, "is not UTF-8") from error


def _read(folder: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for name in FILES:
        try:
            with (folder / name).open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            continue
        if len(data) > MAX_FILE_BYTES:
            raise BadInput(name, f"is larger than {MAX_FILE_BYTES:,} bytes")
        files[name] = data
    return files


def _folders(directory: Path) -> list[str]:
    try:
        found = [path.name for path in directory.iterdir() if path.is_dir()]
    except OSError:  # missing, or not to be read: then there are the built-in ones
        return []
    return sorted(name for name in found if not name.startswith(NO_PROFILE))[:MAX_PROFILES]
