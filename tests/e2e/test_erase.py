"""What ``navi erase`` and ``navi prune`` leave behind of a real session: nothing that was said."""

import asyncio
import json
from itertools import count
from pathlib import Path
from typing import Any

import asyncpg
import nats
import pytest
from nats.js.errors import NotFoundError

from tests.support.navi_process import NaviProcess

pytestmark = pytest.mark.asyncio(loop_scope="module")

_numbers = count(4711)


@pytest.fixture
def secret() -> str:
    """A word that stands nowhere else."""
    return f"Zanzibar-{next(_numbers)}"


def script(secret: str) -> str:
    """A turn that says it everywhere."""
    return f"""\
My secret is {secret}.
!think {secret} it is
!say I heard {secret}.
!tool filesystem {{"action": "write", "path": "{secret}.txt", "content": "{secret}"}}
!tool filesystem {{"action": "read", "path": "{secret}.txt"}}
!tool memory {{"action": "save", "text": "The user lives in {secret}"}}
!then
!say So much for {secret}.
!remember The user flew to {secret}"""


async def spoken(navi: NaviProcess, secret: str) -> str:
    """A session that is full of the secret, and at rest."""
    session_id = await navi.new_session()
    outcome = await navi.say(session_id, script(secret))
    assert secret in outcome["content"]
    await navi.until(session_id, "session_renamed")
    async with asyncio.timeout(60):
        while len(await memories_of(navi, secret)) < 2:  # noqa: ASYNC110  # on a server
            await asyncio.sleep(0.05)
    return session_id


async def memories_of(navi: NaviProcess, secret: str) -> list[str]:
    found = (await navi.get("/memories"))["memories"]
    return [memory["text"] for memory in found if secret in memory["text"]]


_addresses: dict[int, dict[str, str]] = {}


async def addresses(navi: NaviProcess) -> dict[str, str]:
    """Where Postgres and NATS of a server are; asked once a start, a command takes a while."""
    if navi.pid not in _addresses:
        _addresses[navi.pid] = (await navi.command("status", "--json")).json
    return _addresses[navi.pid]


async def tables_that_say(navi: NaviProcess, word: str) -> list[str]:
    """The tables of the database in which a word can be read."""
    connection = await asyncpg.connect((await addresses(navi))["database_url"])
    try:
        tables = await connection.fetch(
            "select tablename as name from pg_tables where schemaname = 'navi'"
        )
        found: list[str] = []
        for name in sorted(row["name"] for row in tables):
            as_text, as_bytes = (
                f"t::text like '%{word}%'",
                f"t::text like '%{word.encode().hex()}%'",
            )
            if await connection.fetchval(
                f"select exists (select from navi.{name} t where {as_text} or {as_bytes})"  # noqa: S608 - names of ours
            ):
                found.append(name)
    finally:
        await connection.close()
    return found


async def on_nats(navi: NaviProcess) -> dict[int, bytes]:
    """What the stream holds, by sequence number."""
    client = await nats.connect((await addresses(navi))["nats_url"])
    try:
        stream = client.jetstream()
        last = (await stream.stream_info("NAVI_0")).state.last_seq
        found: dict[int, bytes] = {}
        for seq in range(1, last + 1):
            try:
                found[seq] = (await stream.get_msg("NAVI_0", seq)).data or b""
            except NotFoundError:
                continue
    finally:
        await client.close()
    return found


def files_that_say(directory: Path, word: str) -> list[str]:
    return [
        str(path.relative_to(directory))
        for path in directory.rglob("*")
        if word in path.name or (path.is_file() and word.encode() in path.read_bytes())
    ]


async def events_of(navi: NaviProcess, session_id: str) -> list[dict[str, Any]]:
    printed = (await navi.command("events", session_id, "--json")).stdout
    return [json.loads(line) for line in printed.splitlines()]


async def test_what_is_erased_is_gone_everywhere_and_the_chain_still_holds(
    navi: NaviProcess, secret: str
) -> None:
    session_id = await spoken(navi, secret)
    bystander = await navi.new_session()
    await navi.say(bystander, "!say Something else.")
    fork = (await navi.post(f"/sessions/{session_id}/fork", {"at": 25}))["id"]
    before = (await navi.get(f"/sessions/{session_id}/events"))["events"]
    assert "event_p0" in await tables_that_say(navi, secret)
    found = (await navi.get(f"/search?query={secret}"))["results"]
    assert {one["session_id"] for one in found} == {session_id, fork}

    erased = await navi.command("erase", session_id, "--yes", "--json")

    assert erased.status == 0, erased.stderr
    [one] = erased.json["erased"]
    assert (one["session_id"], one["forks"], one["memories"]) == (session_id, [fork], 2)
    assert erased.json["nats"] == "erased"
    assert (await tables_that_say(navi, secret)) == []
    assert not [seq for seq, data in (await on_nats(navi)).items() if secret.encode() in data]
    assert not (navi.data_dir / "files" / session_id).exists()
    async with navi.client() as client:
        assert (await client.get(f"/sessions/{session_id}/messages")).status_code == 404
    assert await memories_of(navi, secret) == []
    assert (await navi.get(f"/search?query={secret}"))["results"] == []
    after = await events_of(navi, session_id)
    head = ("session_id", "seq", "id", "type", "v", "at", "turn_id", "subagent_id")
    assert [[e[k] for k in head] for e in after[: len(before)]] == [
        [e[k] for k in head] for e in before
    ]
    assert after[-1]["type"] == "content_erased"
    assert all(e["data"].get("erased") or e["data"].get("pruned") for e in after[: len(before)])
    replayed = (await navi.command("replay", session_id, "--json")).json
    assert {m["content"] for m in replayed["messages"]} <= {"[erased]", ""}
    assert (await navi.command("verify", "--json")).json["problems"] == []
    assert (await navi.get(f"/sessions/{bystander}/messages"))["messages"][-1]["content"] == (
        "Something else."
    )


async def test_a_session_with_an_event_that_cannot_be_read_is_erased_like_any_other(
    navi: NaviProcess, secret: str
) -> None:
    session_id = await spoken(navi, secret)
    connection = await asyncpg.connect((await addresses(navi))["database_url"])
    await connection.execute(
        """update navi.event set data = $2 where session_id = $1
             and type in ('tool_finished', 'session_renamed', 'memory_saved')""",
        *(session_id, json.dumps({"call_id": 42, "name": 42, "output": secret})),
    )
    await connection.close()

    erased = await navi.command("erase", session_id, "--yes", "--json")

    assert erased.status == 0, erased.stderr
    assert erased.json["erased"][0]["events"] > 0
    left = await tables_that_say(navi, secret)
    assert left == [], left


async def test_a_fork_goes_on_without_the_words_that_it_shared(
    navi: NaviProcess, secret: str
) -> None:
    session_id = await navi.new_session()
    head = (await navi.say(session_id, f"!say {secret}"))["seq"]
    fork = (await navi.post(f"/sessions/{session_id}/fork", {"at": head}))["id"]
    first = await navi.say(fork, "!say Mine.")
    assert first["outcome"] == "completed"

    refused = await navi.command("erase", session_id, stdin="n\n")
    assert (refused.status, fork in refused.stderr) == (1, True)
    assert (await navi.get(f"/sessions/{session_id}"))["id"] == session_id
    await navi.command("erase", session_id, stdin="y\n")

    messages = (await navi.get(f"/sessions/{fork}/messages"))["messages"]
    context = (await navi.get(f"/sessions/{fork}/context"))["messages"]
    assert [m["content"] for m in messages] == ["[erased]", "[erased]", "!say Mine.", "Mine."]
    assert [m["content"] for m in context] == [m["content"] for m in messages]
    assert [s["id"] for s in (await navi.get("/sessions"))["sessions"]].count(fork) == 1
    assert (await navi.say(fork, "!say Still here."))["content"] == "Still here."
    events = (await navi.get(f"/sessions/{fork}/events"))["events"]
    told = [e["data"]["session_id"] for e in events if e["type"] == "content_erased"]
    assert session_id in told
    calls = [e for e in events if e["type"] == "model_called"]
    async with navi.client() as client:
        last = await client.get(f"/sessions/{fork}/calls/{calls[-1]['data']['call_id']}/request")
        own = [c for c in calls if c["session_id"] == fork and c["data"]["purpose"] == "turn"]
        gone = await client.get(f"/sessions/{fork}/calls/{own[0]['data']['call_id']}/request")
    assert last.json()["matches"] is True
    assert (gone.status_code, "erased" in gone.json()["detail"]) == (410, True)


async def test_uploads_go_with_their_session_and_from_its_forks(
    navi: NaviProcess, secret: str
) -> None:
    session_id = await navi.new_session()
    own, lost = f"own-{secret}", f"lost-{secret}"
    async with navi.client() as client:
        path = f"/sessions/{session_id}/files"
        # Of the first version of a file that was replaced a fork has nothing, and says so.
        for name, data in ((own, f"of {secret}"), (lost, "first"), (lost, f"then {secret}")):
            await client.post(f"{path}?replace=true", files={"f": (name, data.encode())})
        fork = (await navi.post(f"/sessions/{session_id}/fork", {"at": 3}))["id"]
        await client.post(f"/sessions/{fork}/files", files={"f": ("mine", b"mine")})
    assert "file_expired" in await navi.types(fork)
    assert files_that_say(navi.data_dir / "files", secret) != []

    erased = await navi.command("erase", session_id, "--yes", "--json")

    assert erased.status == 0, erased.stderr
    assert await tables_that_say(navi, secret) == []
    assert files_that_say(navi.data_dir / "files", secret) == []
    assert not [seq for seq, data in (await on_nats(navi)).items() if secret.encode() in data]
    [mine] = (await navi.get(f"/sessions/{fork}/files"))["files"]
    assert mine["name"] == "mine"
    async with navi.client() as client:
        assert (await client.get(f"/sessions/{fork}/files/mine")).content == b"mine"
    assert (await navi.command("verify", "--json")).json["problems"] == []


async def test_a_forgotten_memory_is_gone_from_all_that_quoted_it(
    navi: NaviProcess, secret: str
) -> None:
    fact = f"The user lives in {secret}"
    session_id = await navi.new_session()
    asked = f'Keep this.\n!tool memory {{"action": "save", "text": "{fact}"}}\n!then\n!say {fact}!'
    await navi.say(session_id, asked)
    recalling = await navi.new_session()
    await navi.say(
        recalling, f'What of {secret}?\n!tool memory {{"action": "search", "query": "{secret}"}}'
    )
    await navi.until(recalling, "session_renamed")
    [memory] = [m for m in (await navi.get("/memories"))["memories"] if m["text"] == fact]
    assert "event_p0" in await tables_that_say(navi, fact)

    async with navi.client() as client:
        forgotten = await client.delete(f"/memories/{memory['id']}")

    assert forgotten.status_code == 204
    assert await tables_that_say(navi, fact) == []
    assert (await navi.get(f'/search?query="{fact}"'))["results"] == []
    async with asyncio.timeout(60):
        while [n for n, data in (await on_nats(navi)).items() if fact.encode() in data]:  # noqa: ASYNC110  # on a server
            await asyncio.sleep(0.05)
    messages = (await navi.get(f"/sessions/{session_id}/messages"))["messages"]
    assert [m["content"] for m in messages].count("[erased]") >= 2
    assert (await navi.get(f"/sessions/{recalling}/messages"))["messages"][0][
        "content"
    ] != "[erased]"
    assert (await navi.say(session_id, "!say Still here."))["content"] == "Still here."
    assert (await navi.command("verify", "--json")).json["problems"] == []
    assert (await navi.get(f"/sessions/{session_id}/context"))["messages"][-1][
        "content"
    ] == "Still here."


async def test_pruned_deltas_are_served_pruned_and_change_no_buffer(
    navi: NaviProcess, secret: str
) -> None:
    session_id = await navi.new_session()
    await navi.say(session_id, f"!think {secret}\n!say {secret}")
    messages = await navi.get(f"/sessions/{session_id}/messages")
    await navi.until(session_id, "session_renamed")

    young = await navi.command("prune", "--deltas", "--older-than", "7d", "--json")
    tried = await navi.command(
        *("prune", "--deltas", "--older-than", "0s", "--session", session_id, "--dry-run", "--json")
    )
    done = await navi.command(
        *("prune", "--deltas", "--older-than", "0s", "--session", session_id, "--json")
    )

    assert young.json["deltas"] == 0
    assert tried.json["deltas"] == done.json["deltas"] >= 2
    events = (await navi.get(f"/sessions/{session_id}/events"))["events"]
    deltas = [e["data"] for e in events if e["type"].endswith("_delta")]
    assert len(deltas) == done.json["deltas"]
    assert all(d == {"call_id": d["call_id"], "pruned": True} for d in deltas)
    assert (await navi.get(f"/sessions/{session_id}/messages"))["messages"] == messages["messages"]
    assert (await navi.command("verify", session_id, "--json")).json["ok"] is True


async def test_an_erasure_that_was_killed_is_completed_by_another(
    navi: NaviProcess, secret: str
) -> None:
    session_id = await spoken(navi, secret)

    killed = await navi.command(
        "erase", session_id, "--yes", NAVI_FAILPOINTS="erase.before_record=kill"
    )
    assert killed.status == -9
    again = await navi.command("erase", session_id, "--yes", "--json")
    third = await navi.command("erase", session_id, "--yes", "--json")

    assert (again.status, again.json["nats"]) == (0, "erased")
    told = [e for e in await events_of(navi, session_id) if e["type"] == "content_erased"]
    # One for both memories, which are looked for together.
    assert [e["data"]["why"] for e in told] == ["memory", "session"]
    assert third.json["erased"][0]["events"] == 0
    assert await tables_that_say(navi, secret) == []
    assert not [seq for seq, data in (await on_nats(navi)).items() if secret.encode() in data]


async def test_an_owner_can_be_erased_without_a_running_navi(
    navi: NaviProcess, secret: str
) -> None:
    session_id = await spoken(navi, secret)
    await navi.post("/memories", {"text": f"By hand: {secret}"})
    await navi.stop()

    erased = await navi.command("erase", "--user", "local", "--yes", "--json")

    assert erased.status == 0, erased.stderr
    assert session_id in [each["session_id"] for each in erased.json["erased"]]
    assert (await navi.command("verify", "--json")).json["ok"] is True
    assert (await navi.command("sessions", "--json")).json["sessions"] == []
    assert files_that_say(navi.data_dir / "files", secret) == []
    # On NATS nothing is given out any more; its files are freed as blocks of Postgres are.
    await navi.start()
    assert await tables_that_say(navi, secret) == []
    assert (await navi.get("/memories"))["memories"] == []
    kept = (await navi.post("/memories", {"text": "after it"}))["id"]
    assert [m["id"] for m in (await navi.get("/memories"))["memories"]] == [kept]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("erase",), "SESSION"),
        (("erase", "x", "--user", "local"), "SESSION"),
        (("prune", "--older-than", "7d"), "--deltas"),
        (("prune", "--deltas", "--older-than", "soon"), "soon"),
        (("prune", "--deltas"), "older-than"),
    ],
)
async def test_wrong_usage_is_told(
    navi: NaviProcess, arguments: tuple[str, ...], words: str
) -> None:
    told = await navi.command(*arguments)

    assert (told.status, told.stdout) == (2, "")
    assert words in told.stderr


async def test_what_never_was_cannot_be_erased(navi: NaviProcess) -> None:
    for arguments in (("01990000-0000-7000-8000-00000000dead",), ("--user", "nobody")):
        told = await navi.command("erase", *arguments, "--yes")

        assert (told.status, told.stdout) == (1, "")
