"""Commented examples for the folders of own tools and profiles, put where there is nothing yet."""

import os
from pathlib import Path

import msgspec
import structlog

from navi.domain.agent.profile import Profile, profile_text

# A tool file and a profile are named `_example`: what begins so is offered to nobody.
EXAMPLE = "_example"

_EXAMPLES = Path(__file__).parent / "examples"
_SHOWN = Profile(name="Example", description="Copy this folder: its name is the profile's id.")

log = structlog.get_logger()


def put_examples(*, tools: Path, profiles: Path) -> None:
    """Fill the folders that are empty or not there; what cannot be written is no reason not to start."""
    files = {
        tools / f"{EXAMPLE}.py": (_EXAMPLES / f"{EXAMPLE}.py").read_text(),
        profiles / EXAMPLE / "config.json": _config(),
        profiles / EXAMPLE / "keys.md": (_EXAMPLES / "keys.md").read_text(),
        profiles / EXAMPLE / "system.md": (_EXAMPLES / "system.md").read_text(),
        profiles / EXAMPLE / "subagent.md": (_EXAMPLES / "subagent.md").read_text(),
    }
    for folder in (tools, profiles):
        try:
            if folder.is_dir() and any(folder.iterdir()):
                continue
            for path, text in files.items():
                if path.is_relative_to(folder):
                    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                    path.parent.mkdir(mode=0o700, exist_ok=True)
                    _write_new(path, text)
        except OSError as error:
            log.warning("examples_not_written", folder=str(folder), error=error.strerror)


def _config() -> str:
    """Every key at its default; the prompts stand in files of their own."""
    keys = msgspec.json.decode(profile_text(_SHOWN))
    del keys["system_prompt"], keys["subagent_system_prompt"]
    return msgspec.json.format(msgspec.json.encode(keys), indent=2).decode() + "\n"


def _write_new(path: Path, text: str) -> None:
    """Write a file that was not there; another node may put it at the same moment."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
