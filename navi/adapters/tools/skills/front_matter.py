"""The front matter of a ``SKILL.md``, in the open Agent Skills format."""

import re
from typing import Any

import yaml

from navi.domain.vocabulary.errors import BadInput

MAX_NAME = 64  # characters, as the format has it
MAX_DESCRIPTION = 1_024  # likewise

_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*\r?$\n?", re.DOTALL | re.MULTILINE)


def parse_front_matter(text: str) -> tuple[str, str, str]:
    """Name, description and body of a ``SKILL.md``; other keys of the format are passed over.

    Raises:
        BadInput: there is no front matter, it is no YAML, or a key is missing or too long.
    """
    found = _FRONT_MATTER.match(text.removeprefix("\ufeff"))
    if found is None:
        raise BadInput("SKILL.md", "does not begin with front matter between two lines of ---")
    try:
        matter: Any = yaml.safe_load(found.group(1))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadInput("SKILL.md", f"its front matter is not YAML: {_first_line(error)}") from error
    if not isinstance(matter, dict):
        raise BadInput("SKILL.md", "its front matter has no keys")
    name = _line_of(matter, "name", MAX_NAME)
    description = _line_of(matter, "description", MAX_DESCRIPTION)
    return name, description, text.removeprefix("\ufeff")[found.end() :].strip()


def _line_of(matter: Any, key: str, most: int) -> str:
    value = matter.get(key)
    if not isinstance(value, str) or not value.strip():
        raise BadInput(key, "is missing in the front matter of SKILL.md, or is no text")
    line = " ".join(value.split())  # folded and literal scalars become one line of the system text
    if len(line) > most:
        raise BadInput(key, f"has {len(line):,} characters; at most {most:,} are allowed")
    return line


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
