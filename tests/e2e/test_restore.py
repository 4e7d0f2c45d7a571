"""What ``navi backup`` writes while navi runs, and what ``navi restore`` makes of it."""

import asyncio
import shutil
from pathlib import Path

from tests.support.navi_process import run_navi, running_navi
from tests.support.servers import NatsServer, PostgresServer


async def test_what_was_backed_up_is_there_again_and_verifies(
    tmp_path: Path, postgres_server: PostgresServer, nats_server: NatsServer
) -> None:
    data, backup, restored = tmp_path / "data", tmp_path / "backup", tmp_path / "restored"
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

        made = await navi.command("backup", str(backup), "--json")

        assert made.status == 0, made.stderr
        await navi.say(session_id, "!say what came later")
        assert await navi.stop() == 0
    heads = (data / "heads.jsonl").read_bytes()  # they know of what came later
    await postgres_server.drop_database(dsn)
    await nats_server.clear()

    empty = await postgres_server.create_database()
    there = {"DATABASE_URL": empty, "NATS_URL": nats_server.url}
    done = await run_navi("restore", str(backup), "--json", data_dir=restored, settings=there)
    twice = await run_navi("restore", str(backup), data_dir=tmp_path / "other", settings=there)

    assert (done.status, done.json["problems"]) == (0, []), done.stderr
    assert (twice.status, "restored into an empty one" in twice.stderr) == (1, True)
    async with running_navi(restored, **there) as navi:
        after = await navi.get(f"/sessions/{session_id}/messages")
        async with navi.client() as client:
            file = await client.get(f"/sessions/{session_id}/files/notes.txt")
        assert after["messages"] == before["messages"]
        assert file.content == b"remember me"
        assert await navi.stop() == 0

    # The heads were not put back with it: nothing is signed, until somebody acknowledges why.
    (restored / "heads.jsonl").write_bytes(heads)
    lost = await run_navi("verify", "--json", data_dir=restored, settings=there)
    async with running_navi(restored, **there) as navi:
        doctor = (await navi.command("doctor", "--json")).json["findings"]
        told = await navi.command("restored", "--yes", "--json")
        assert (await navi.say(session_id, "!say on we go"))["outcome"] == "completed"
        assert await navi.stop() == 0
    holds = await run_navi("verify", "--json", data_dir=restored, settings=there)

    assert (lost.status, "`navi restored`" in lost.stderr) == (1, True)
    assert [each["state"] for each in doctor if each["name"] == "heads"] == ["fail"]
    assert (told.status, told.json["acknowledged"]) == (0, True), told.stderr
    assert session_id in [each["session_id"] for each in told.json["sessions"]]
    assert (holds.status, holds.json["problems"]) == (0, [])
    assert "it was acknowledged that an older state was put back" in holds.stderr
    await postgres_server.drop_database(empty)


async def test_a_damaged_backup_is_refused_before_anything_is_written(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    data, backup = tmp_path / "data", tmp_path / "backup"
    dsn = await postgres_server.create_migrated()
    there = {"DATABASE_URL": dsn}
    assert (await run_navi("keys", data_dir=data, settings=there)).status == 0
    made = await run_navi("backup", str(backup), data_dir=data, settings=there)
    assert made.status == 0, made.stderr
    again = await run_navi("backup", str(backup), data_dir=data, settings=there)
    dump = backup / "navi.dump"
    whole = await asyncio.to_thread(dump.read_bytes)
    await asyncio.to_thread(dump.write_bytes, whole[:-1])

    restored = await run_navi(
        "restore", str(backup), data_dir=tmp_path / "restored", settings=there
    )

    assert again.status == 2
    assert restored.stderr.splitlines()[-1] == "navi: DIR: navi.dump is damaged"
    assert restored.status == 2
    assert not (tmp_path / "restored").exists()
    await asyncio.to_thread(shutil.rmtree, backup)
    await postgres_server.drop_database(dsn)
