"""Read the directory of own tools: files with tools, and modules beside them."""

import importlib.util
import keyword
from pathlib import Path

from msgspec import Struct

from navi.adapters.tools.own_tools.wire import Helper, LoadProblem, Source

MAX_FILE_BYTES = 1024 * 1024
MAX_FILES = 200


class SourceFiles(Struct, frozen=True, kw_only=True):
    """The files as they were: a process that starts later runs the same texts."""

    sources: tuple[Source, ...] = ()
    helpers: tuple[Helper, ...] = ()
    problems: tuple[LoadProblem, ...] = ()


def read_sources(directory: Path) -> SourceFiles:
    """What is there now; empty where the directory is missing.

    Raises:
        OSError: the directory is there and cannot be read.
    """
    paths = [path for path in _python_files(directory) if not path.name.startswith(".")]
    sources: list[Source] = []
    helpers: list[Helper] = []
    problems: list[LoadProblem] = []
    for path in paths[:MAX_FILES]:
        file = path.relative_to(directory).as_posix()
        try:
            text = _read(path)
            if not file.startswith("_"):
                sources.append(Source(file=file, path=str(path), text=text))
            elif (helper := _helper(file, path, text)) is not None:
                helpers.append(helper)
        except (OSError, ValueError, SyntaxError) as error:
            problems.append(LoadProblem(file=file, error=str(error)))
    problems.extend(
        LoadProblem(file=path.name, error=f"there are more than {MAX_FILES} files")
        for path in paths[MAX_FILES:]
    )
    return SourceFiles(sources=tuple(sources), helpers=tuple(helpers), problems=tuple(problems))


def _python_files(directory: Path) -> list[Path]:
    """The files with tools and the modules beside them: `_one.py`, and all in a directory `_more/`."""
    try:
        names = [path.name for path in directory.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    if not any(name.endswith(".py") or name.startswith("_") for name in names):
        return []
    packages = (path for path in directory.glob("_*/**/*.py") if "__pycache__" not in path.parts)
    return sorted((*directory.glob("*.py"), *packages))


def _helper(file: str, path: Path, text: str) -> Helper | None:
    """A module that tools may import; None where no statement could name it."""
    package = path.name == "__init__.py"
    module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    if any(not part.isidentifier() or keyword.iskeyword(part) for part in module.split(".")):
        return None
    if importlib.util.find_spec(module.partition(".")[0]) is not None:
        raise ValueError("Python itself has a module of this name; rename it")
    return Helper(module=module, path=str(path), text=text, package=package)


def _read(path: Path) -> str:
    if path.stat().st_size > MAX_FILE_BYTES:
        raise ValueError(f"larger than {MAX_FILE_BYTES:,} bytes")
    return importlib.util.decode_source(path.read_bytes())
