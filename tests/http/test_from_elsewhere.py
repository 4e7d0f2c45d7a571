"""The command line against a navi elsewhere: ``NAVI_URL`` and ``NAVI_TOKEN``."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from litestar.types import Scope

from navi.cli.shared.elsewhere import RemoteHistory
from navi.cli.shared.remote import open_remote
from navi.domain.vocabulary.events import SessionRenamed
from navi.domain.vocabulary.ids import Owner, SessionId
from navi.domain.vocabulary.principal import Principal
from navi.http.api.sessions import SessionAnswer
from tests.support.agent_node import TIMEOUT
from tests.support.app import RunningApp, running_app
from tests.support.navi_process import Finished, run_navi

TOKENS = {
    "alices-token": Principal(user_id=Owner("alice"), name="alice", role="user", scope="chat"),
    "readers-token": Principal(user_id=Owner("alice"), name="alice", role="user", scope="read"),
    "bobs-token": Principal(user_id=Owner("bob"), name="bob", role="user", scope="chat"),
}
SHOWN = "alices-token"
ALICE = {"Authorization": "Bearer alices-token"}


async def by_token(scope: Scope) -> Principal | None:
    shown = dict(scope["headers"]).get(b"authorization", b"").decode()
    return TOKENS.get(shown.removeprefix("Bearer "))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def there(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[RunningApp, None]:
    async with running_app(tmp_path_factory.mktemp("there"), identify=by_token) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session_id(there: RunningApp) -> str:
    """A session of alice's in which a turn has ended."""
    made = await there.client.post("/sessions", json={}, headers=ALICE)
    path = f"/sessions/{made.json()['id']}/messages"
    said = await there.client.post(path, json={"content": "hello"}, headers=ALICE)
    assert said.json()["outcome"] == "completed"
    return made.json()["id"]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The data directory of a machine without a navi."""
    return tmp_path / "here"


async def command(
    there: RunningApp, here: Path, *arguments: str, token: str | None = SHOWN
) -> Finished:
    settings = {"NAVI_URL": there.address.url}
    if token is not None:
        settings["NAVI_TOKEN"] = token
    ended = await run_navi(*arguments, data_dir=here, settings=settings)
    assert token is None or token not in ended.stdout + ended.stderr
    return ended


async def asked(there: RunningApp, path: str) -> Any:
    return (await there.client.get(path, headers=ALICE)).json()


async def test_what_reads_prints_what_the_routes_say(
    there: RunningApp, session_id: str, here: Path
) -> None:
    of = f"/sessions/{session_id}"
    events = await asked(there, f"{of}/events")
    [call, *_] = [e["data"]["call_id"] for e in events["events"] if e["type"] == "model_called"]
    head = str(events["seq"])

    listed, logged, said, seen, past, made, changed, traced, used = await asyncio.gather(
        command(there, here, "sessions", "--json"),
        command(there, here, "events", session_id, "--json"),
        command(there, here, "replay", session_id, "--json"),
        command(there, here, "replay", session_id, "--buffer", "context", "--json"),
        command(there, here, "replay", session_id, "--at", "3", "--json"),
        command(there, here, "request", session_id, call, "--json"),
        command(there, here, "diff", session_id, "1", head, "--json"),
        command(there, here, "trace", session_id, "--format", "otlp", "--json"),
        command(there, here, "usage", "--by", "purpose", "--json"),
    )

    assert session_id in [one["id"] for one in listed.json["sessions"]]
    assert [json.loads(line) for line in logged.stdout.splitlines()] == events["events"]
    assert said.json == await asked(there, f"{of}/messages")
    assert seen.json == await asked(there, f"{of}/context")
    assert past.json == await asked(there, f"{of}/messages?at=3")
    assert made.json == await asked(there, f"{of}/calls/{call}/request")
    assert changed.json["messages"]["added"][0]["content"] == "hello"
    assert traced.json["resourceSpans"]
    assert used.json == await asked(there, "/usage?by=purpose")
    assert used.json["total"]["calls"] > 0
    assert not here.exists()  # nothing was opened or started here


async def test_one_chats_over_there(there: RunningApp, here: Path) -> None:
    ended = await command(there, here, "chat", "hello", "--json")

    told = ended.json
    assert (ended.status, told["outcome"]) == (0, "completed")
    messages = await asked(there, f"/sessions/{told['session_id']}/messages")
    assert messages["messages"][0]["content"] == "hello"


async def test_what_changes_things_changes_them_there(
    there: RunningApp, session_id: str, here: Path
) -> None:
    fork = await command(there, here, "fork", session_id, "--name", "Another try", "--json")
    added = await command(there, here, "memories", "add", "I drink tea")
    [memory_id] = added.stdout.split()
    await command(there, here, "memories", "edit", memory_id, "I drink coffee")
    found = await command(there, here, "memories", "--json", "search", "coffee")
    kept = await asked(there, "/memories")
    await command(there, here, "memories", "forget", memory_id)
    waiting = await command(there, here, "approvals", "--json")
    decided = await command(there, here, "approvals", "allow", "call_000000000000")

    assert (await asked(there, f"/sessions/{fork.json['id']}"))["name"] == "Another try"
    assert found.json == kept
    assert await asked(there, "/memories") == {"memories": []}
    assert waiting.json == {"approvals": []}
    assert (decided.status, decided.stderr) == (
        1,
        "navi: no tool call call_000000000000 waits for a decision\n",
    )


async def test_it_is_told_where_navi_is(there: RunningApp, here: Path) -> None:
    ended = await command(there, here, "status", "--json")

    told = ended.json
    assert (told["http_url"], told["running"], told["version"]) == (
        there.address.url,
        True,
        "0.0.0",
    )
    assert (told["database_url"], told["nats_url"], told["data_dir"]) == (None, None, None)


@pytest.mark.parametrize(
    ("token", "arguments", "words"),
    [
        (None, ("sessions",), "navi wants to know who you are: set NAVI_TOKEN"),
        ("forgotten", ("sessions",), "navi does not take the token of NAVI_TOKEN"),
        ("readers-token", ("memories", "add", "x"), "the token has no scope 'chat'"),
        ("readers-token", ("chat", "hello"), "the token has no scope 'chat'"),
        ("bobs-token", ("replay", "SESSION"), "no session SESSION"),
        ("bobs-token", ("events", "SESSION"), "no session SESSION"),
        ("bobs-token", ("chat", "--session", "SESSION", "hello"), "no session SESSION"),
    ],
)
async def test_a_refusal_is_one_clear_line(
    there: RunningApp,
    session_id: str,
    here: Path,
    token: str | None,
    arguments: tuple[str, ...],
    words: str,
) -> None:
    named = [session_id if argument == "SESSION" else argument for argument in arguments]

    ended = await command(there, here, *named, token=token)

    line = f"navi: {words.replace('SESSION', session_id)}\n"
    assert (ended.status, ended.stdout, ended.stderr) == (1, "", line)


async def test_nobody_there_is_one_clear_line(here: Path) -> None:
    settings = {"NAVI_URL": "http://127.0.0.1:1", "NAVI_TOKEN": "alices-token"}

    reads, chats = await asyncio.gather(
        run_navi("sessions", data_dir=here, settings=settings),
        run_navi("chat", "hello", data_dir=here, settings=settings),
    )

    assert (reads.status, reads.stderr) == (
        1,
        "navi: navi does not answer at http://127.0.0.1:1: ConnectError\n",
    )
    assert (chats.status, chats.stderr) == (1, "navi: there is no navi at http://127.0.0.1:1\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("verify",),
        ("erase", "0199b0a0-0000-7000-8000-000000000001", "--yes"),
        ("prune", "--deltas", "--older-than", "7d"),
        ("projections", "status"),
        ("doctor",),
        ("keys",),
        ("export", "--all"),
        ("backup", "/nowhere/copy"),
        ("restore", "."),
    ],
    ids=lambda arguments: arguments[0],
)
async def test_what_works_on_the_log_itself_says_that_it_is_elsewhere(
    there: RunningApp, here: Path, arguments: tuple[str, ...]
) -> None:
    ended = await command(there, here, *arguments)

    line = "navi: NAVI_URL: is set, and this command works only on the machine where navi runs\n"
    assert (ended.status, ended.stdout, ended.stderr) == (2, "", line)
    assert not here.exists()  # no key was made, of a navi that is not here


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("NAVI_URL", "navi.example", "is not a URL that begins with http or https://"),
        ("NAVI_URL", "https://me:secret@navi", "holds a name or password"),
        ("NAVI_URL", "http://navi:80secret", "names a host or a port that cannot be one"),
        ("NAVI_URL", "http://[::1", "names a host or a port that cannot be one"),
        ("NAVI_URL", "http://:80", "names a host or a port that cannot be one"),
        ("NAVI_URL", "http://na vi", "names a host or a port that cannot be one"),
        ("NAVI_TOKEN", "se cret", "is not a token"),
    ],
)
async def test_what_is_no_address_or_token_is_refused_without_showing_it(
    here: Path, name: str, value: str, words: str
) -> None:
    ended = await run_navi("sessions", data_dir=here, settings={name: value})

    assert ended.status == 2
    assert ended.stderr.startswith(f"navi: {name}: {words}")
    assert "secret" not in ended.stderr
    assert "se cret" not in ended.stderr


async def test_who_follows_sees_each_event_once(there: RunningApp, session_id: str) -> None:
    seen: list[int] = []
    renamed = {"name": "Followed"}
    async with open_remote(there.address.url, token=SHOWN) as navi:
        history = RemoteHistory(navi)
        head = await history.head(SessionId(session_id))
        async with asyncio.timeout(TIMEOUT):
            async for rows in history.watch(SessionId(session_id), after=0):
                seen += [row.seq for row in rows]
                if seen[-1] == head:
                    path = f"/sessions/{session_id}"
                    await there.client.patch(path, json=renamed, headers=ALICE)
                if rows[-1].type == SessionRenamed.TYPE and seen[-1] > head:
                    break

    assert seen == list(range(1, seen[-1] + 1))


def test_a_session_of_a_navi_that_knows_less_of_it_is_read() -> None:
    told: dict[str, Any] = {
        "id": "01990000-0000-7000-8000-000000000001",
        "owner": "local",
        "profile_id": "assistant",
        "name": None,
        "pinned": False,
        "created_at": None,
        "last_active": None,
        "status": "idle",
        "seq": 1,
        "context_token_count": None,
        "forked_from": None,
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "cached_tokens": None, "calls": 0},
        "waiting": [],
    }
    assert msgspec.convert(told, SessionAnswer).context_window is None
