"""The back-up that docs/operations.md describes, taken while navi runs, and what is restored from it."""

import asyncio
import shutil
from pathlib import Path

from navi.adapters.embedded.binaries import postgres_directory
from tests.support.navi_process import running_navi
from tests.support.servers import NatsServer, PostgresServer

BACKED_UP = ("files", "keys")  # of the data directory; heads.jsonl goes first, by itself


async def pg(program: str, *arguments: str) -> None:
    programs = await asyncio.to_thread(postgres_directory, None)
    process = await asyncio.create_subprocess_exec(
        str(programs / program), *arguments, stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()


async def test_what_was_backed_up_is_there_again_and_verifies(
    tmp_path: Path, postgres_server: PostgresServer, nats_server: NatsServer
) -> None:
    data, backup, restored = tmp_path / "data", tmp_path / "backup", tmp_path / "restored"
    backup.mkdir()
    dsn = await postgres_server.create_migrated()
    servers = {"DATABASE_URL": dsn, "NATS_URL": nats_server.url}
    async with running_navi(data, **servers) as navi:
        session_id = await navi.new_session()
        async with navi.client() as client:
            form = {"file": ("notes.txt", b"remember me", "text/plain")}
            await client.post(f"/sessions/{session_id}/files", files=form)
        await navi.say(session_id, "!say hello")
        assert await navi.stop() == 0  # it signs where its log stands
        await navi.start()
        await navi.say(session_id, "!say and on")
        before = await navi.get(f"/sessions/{session_id}/messages")

        await asyncio.to_thread(shutil.copy2, data / "heads.jsonl", backup)
        await pg("pg_dump", "--format=custom", f"--file={backup / 'navi.dump'}", dsn)
        for name in BACKED_UP:
            await asyncio.to_thread(shutil.copytree, data / name, backup / name)

        await navi.say(session_id, "!say what came later")
    await postgres_server.drop_database(dsn)
    await nats_server.clear()

    empty = await postgres_server.create_database()
    await pg(
        "pg_restore",
        "--no-owner",
        "--no-privileges",
        f"--dbname={empty}",
        str(backup / "navi.dump"),
    )
    without_dump = shutil.ignore_patterns("navi.dump")
    await asyncio.to_thread(shutil.copytree, backup, restored, ignore=without_dump)
    async with running_navi(restored, DATABASE_URL=empty, NATS_URL=nats_server.url) as navi:
        verified = await navi.command("verify", "--json")
        after = await navi.get(f"/sessions/{session_id}/messages")
        async with navi.client() as client:
            file = await client.get(f"/sessions/{session_id}/files/notes.txt")
        assert (verified.status, verified.json["problems"]) == (0, [])
        assert after["messages"] == before["messages"]
        assert file.content == b"remember me"
        assert (await navi.say(session_id, "!say on we go"))["outcome"] == "completed"
    await postgres_server.drop_database(empty)
