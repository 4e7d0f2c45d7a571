"""A navi signs where its log stands; what somebody then does to the database shows, beside it and alone."""

import asyncio
import json
from pathlib import Path

import asyncpg
import nats

from tests.support.navi_process import NaviProcess, run_navi, running_navi


async def run_sql(navi: NaviProcess, statement: str) -> None:
    status = (await navi.command("status", "--json")).json
    connection = await asyncpg.connect(status["database_url"])
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def last_head_is_published(nats_url: str, heads: Path) -> None:
    """Wait until the last line of the file is the last message of the stream."""
    client = await nats.connect(nats_url)
    try:
        async with asyncio.timeout(60):
            while True:
                message = await client.jetstream().get_last_msg("NAVI_HEADS", "navi.heads")
                if message.data == heads.read_bytes().splitlines(keepends=True)[-1]:
                    return
                await asyncio.sleep(0.05)
    finally:
        await client.close()


async def test_what_is_cut_off_or_removed_shows_against_the_signed_heads(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    async with running_navi(data_dir) as navi:
        first, second = [await navi.new_session() for _ in range(2)]
        for session_id in (first, second):
            await navi.say(session_id, "!say hello")
            await navi.until(session_id, "session_renamed")
        assert await navi.stop() == 0
        listed = (await navi.command("sessions", "--json")).json["sessions"]
        ends = {session["id"]: session["seq"] for session in listed}
        last = ends[second]
        heads = [json.loads(line) for line in (data_dir / "heads.jsonl").read_bytes().splitlines()]
        await navi.start()
        signed = {name: seq for head in heads for name, (seq, _) in head["sessions"].items()}
        assert signed.items() >= ends.items()
        untouched = await navi.command("verify", "--json")
        assert (untouched.status, untouched.json["problems"]) == (0, [])

        nats_url = (await navi.command("status", "--json")).json["nats_url"]
        await last_head_is_published(nats_url, data_dir / "heads.jsonl")

        await run_sql(
            navi,
            f"delete from navi.event where session_id = '{second}' and seq >= {last};"  # noqa: S608  # ids of our own
            f"delete from navi.event where session_id = '{first}';"
            f"delete from navi.session where session_id = '{first}'",
        )
        cut = await navi.command("verify", second, "--json")
        assert (cut.status, cut.json["problems"][0]["session_id"]) == (1, second)
        assert cut.json["problems"][0]["seq"] == last
        await navi.stop()

    alone = await run_navi("verify", first, "--json", data_dir=data_dir)

    assert alone.status == 1
    assert alone.json["problems"][0]["reason"].startswith("removed: the session went up to seq")
    named = {
        (problem["session_id"], problem["seq"])
        for problem in (await run_navi("verify", "--json", data_dir=data_dir)).json["problems"]
    }
    assert named >= {(first, 1), (second, last)}
