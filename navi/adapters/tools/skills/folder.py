"""Skills as folders, ``<name>/SKILL.md`` with files beside it; edits are seen at the next look."""

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import structlog
from msgspec import Struct

from navi.adapters.tools.skills.front_matter import parse_front_matter
from navi.adapters.tools.workspace import PathForbidden, Workspace
from navi.domain.vocabulary.errors import BadInput, NaviError

SKILL_FILE = "SKILL.md"
MAX_FILE_BYTES = 256 * 1024
MAX_SKILLS = 100  # each costs a line of every request
MAX_LISTED = 100  # files beside a SKILL.md that are named

log = structlog.get_logger()


class NoSuchSkill(NaviError):
    """There is no skill of that name, or no such file in it; the message says what there is."""


class Skill(Struct, frozen=True, kw_only=True):
    """A skill as it was found.

    Attributes:
        description: what it is for and when to use it, one line.
        body: the text of SKILL.md without its front matter.
    """

    name: str
    description: str
    body: str
    directory: Path


class SkillProblem(Struct, frozen=True, kw_only=True):
    """A folder that was left out, and why."""

    folder: str
    error: str


_Stamp = tuple[int, int, int]  # what tells an edited file from the one that was read


class FolderSkills:
    """The skills of a directory, which may be missing. All methods block: use them in a thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._looking = threading.Lock()  # calls come from several threads at once
        self._read: dict[str, tuple[_Stamp, Skill | BadInput]] = {}
        self._skills: Mapping[str, Skill] = {}
        self._problems: tuple[SkillProblem, ...] = ()

    @property
    def skills(self) -> Sequence[Skill]:
        """What the last look found, by name."""
        return tuple(self._skills.values())

    @property
    def problems(self) -> tuple[SkillProblem, ...]:
        """The folders that the last look left out."""
        return self._problems

    def look(self) -> Sequence[Skill]:
        """The skills as they are now, by name; files that did not change are not read again."""
        with self._looking:
            read = {folder: self._load(folder) for folder in _folders(self._directory)}
            skills: dict[str, Skill] = {}
            problems: list[SkillProblem] = []
            for folder, (_, found) in read.items():
                if isinstance(found, BadInput):
                    problems.append(SkillProblem(folder=folder, error=str(found)))
                elif (other := skills.get(found.name)) is not None:
                    error = f"its name {found.name!r} is taken by the folder {other.directory.name}"
                    problems.append(SkillProblem(folder=folder, error=error))
                elif len(skills) == MAX_SKILLS:
                    error = f"there are more than {MAX_SKILLS} skills"
                    problems.append(SkillProblem(folder=folder, error=error))
                else:
                    skills[found.name] = found
            for problem in problems:
                if problem not in self._problems:
                    log.warning("skill_left_out", folder=problem.folder, error=problem.error)
            self._read = read
            self._problems = tuple(problems)
            self._skills = dict(sorted(skills.items()))
            return self.skills

    def text(self, name: str, file: str) -> str:
        """A text file of a skill; of ``SKILL.md`` its body, and the names of the files beside it.

        Raises:
            NoSuchSkill: there is none of that name, or it has no such file.
            PathForbidden: the file lies outside, or is no regular file.
            BadInput: the file is too large or no text.
        """
        skills = {skill.name: skill for skill in self.look()}
        skill = skills.get(name)
        if skill is None:
            there_are = ", ".join(skills) or "none"
            raise NoSuchSkill(f"there is no skill {name!r}; there are: {there_are}")
        with Workspace(skill.directory) as folder:
            if file != SKILL_FILE:
                return _text_of(folder, skill, file)
            paths = [entry.path for entry in folder.files("") if entry.path != SKILL_FILE]
        if not paths:
            return skill.body
        beside = "\n".join(f"- {path}" for path in paths[:MAX_LISTED])
        more = f"\n- and {len(paths) - MAX_LISTED:,} more" if len(paths) > MAX_LISTED else ""
        return f"{skill.body}\n\nFiles of this skill, for the argument `file`:\n{beside}{more}"

    def _load(self, folder: str) -> tuple[_Stamp, Skill | BadInput]:
        directory = self._directory / folder
        try:
            with Workspace(directory) as workspace, _opened(workspace, SKILL_FILE) as file:
                status = os.fstat(file.fileno())
                stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
                before = self._read.get(folder)
                if before is not None and before[0] == stamp:
                    return before
                text = _decoded(file.read(MAX_FILE_BYTES + 1), SKILL_FILE)
            name, description, body = parse_front_matter(text)
        except (BadInput, PathForbidden, OSError) as error:
            return (0, 0, 0), _in_words(error)
        skill = Skill(name=name, description=description, body=body, directory=directory)
        return stamp, skill


def _text_of(folder: Workspace, skill: Skill, path: str) -> str:
    try:
        with _opened(folder, path) as file:
            return _decoded(file.read(MAX_FILE_BYTES + 1), path)
    except OSError as error:
        raise NoSuchSkill(f"{path} of the skill {skill.name}: {error.strerror}") from error


def _opened(folder: Workspace, path: str) -> BinaryIO:
    return os.fdopen(folder.open_file(path), "rb")


def _decoded(data: bytes, path: str) -> str:
    if len(data) > MAX_FILE_BYTES:
        raise BadInput(path, f"is larger than {MAX_FILE_BYTES:,} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadInput(path, "is no text in UTF-8") from error


def _in_words(error: BadInput | PathForbidden | OSError) -> BadInput:
    if isinstance(error, BadInput):
        return error
    cause = error.strerror or "cannot be read" if isinstance(error, OSError) else str(error)
    return BadInput(SKILL_FILE, cause)


def _folders(directory: Path) -> list[str]:
    try:
        found = [path.name for path in directory.iterdir() if path.is_dir()]
    except OSError:  # missing, or not to be read: then there are no skills
        return []
    return sorted(name for name in found if not name.startswith((".", "_")))
