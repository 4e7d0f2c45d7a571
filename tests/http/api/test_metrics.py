"""``GET /metrics``: what a scraper gets, whatever is away."""

import json
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from navi.domain.vocabulary.principal import CLI_ACTOR
from navi.projections.registry import PROJECTIONS
from tests.support.agent_node import World
from tests.support.app import RunningApp, SwitchedAccounts, SwitchedLog, next_frame, running_app
from tests.support.model_wire import Done, calls
from tests.support.people import People


def samples(page: httpx.Response) -> dict[str, float]:
    """Each sample by its name, and by its labels where it has some."""
    assert page.status_code == 200
    return {
        sample.name + "".join(f" {value}" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page.text)
        for sample in family.samples
    }


async def test_a_scrape_gives_prometheus_text(app: RunningApp) -> None:
    page = await app.client.get("/metrics", headers={"Accept": "text/plain"})

    assert page.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "# TYPE navi_turns_total counter" in page.text


async def test_whoever_accepts_it_gets_openmetrics(app: RunningApp) -> None:
    accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"

    page = await app.client.get("/metrics", headers={"Accept": accept})

    assert page.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert page.text.endswith("# EOF\n")


async def test_open_sockets_are_counted(own_app: RunningApp) -> None:
    session_id = await own_app.session()

    async with own_app.socket(session_id) as first, own_app.socket(session_id) as second:
        for socket in (first, second):
            await next_frame(socket)
        during = samples(await own_app.client.get("/metrics"))

    assert during["navi_sockets"] == 2


async def test_read_models_lag_behind_what_was_appended(own_app: RunningApp) -> None:
    await own_app.session()

    before = samples(await own_app.client.get("/metrics"))
    await own_app.world.project()
    after = samples(await own_app.client.get("/metrics"))

    names = [f"navi_projection_lag_events {one.name}" for one in PROJECTIONS]
    assert [before[name] for name in names] == [1] * len(names)
    assert [after[name] for name in names] == [0] * len(names)


async def test_calls_that_wait_for_a_person_are_counted(tmp_path: Path) -> None:
    folder = tmp_path / "no-profiles" / "careful"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"approvals": [{"tool": "*", "then": "ask"}]}))
    async with running_app(tmp_path) as app:
        app.models.answer(calls(("todo", {"action": "list"})), Done())
        session_id = await app.session(profile_id="careful")
        await app.client.post(f"/sessions/{session_id}/messages", json={"content": "list it"})
        await app.world.project()

        found = samples(await app.client.get("/metrics"))

    assert found["navi_approvals_waiting"] == 1


async def test_without_postgres_the_counters_are_still_there(tmp_path: Path) -> None:
    log = SwitchedLog()
    async with running_app(tmp_path, world=World(log)) as app:
        session_id = await app.session()
        await app.client.post(f"/sessions/{session_id}/messages", json={"content": "!say hi"})
        log.reachable = False

        found = samples(await app.client.get("/metrics"))

        log.reachable = True
    assert found["navi_turns_total completed"] == 1
    assert found["navi_turns_running"] == 0
    assert not any(name.startswith("navi_projection_lag_events") for name in found)
    assert "navi_approvals_waiting" not in found


async def test_without_postgres_who_has_scraped_before_goes_on(tmp_path: Path) -> None:
    """Nobody can have been revoked meanwhile, and the counters are what tells that Postgres is away."""
    world, accounts = World(SwitchedLog()), SwitchedAccounts()
    world.accounts = accounts
    async with running_app(tmp_path, world=world, auth="accounts") as app:
        people = await People(app.node.accounts, accounts).move_in()
        scraper, new = await people.token("admin", "read"), await people.token("admin", "read")
        user = await people.token("owner", "read")
        before = [
            (await app.client.get("/metrics", headers=headers)).status_code
            for headers in (scraper, user)
        ]
        accounts.reachable = False

        found = samples(await app.client.get("/metrics", headers=scraper))
        node = await app.client.get("/node", headers=scraper)
        refused = [
            (await app.client.get(path, headers=headers)).status_code
            for path, headers in (
                ("/metrics", new),
                ("/metrics", user),
                ("/metrics", {}),
                ("/auth/me", scraper),
                ("/users", scraper),
            )
        ]

        accounts.reachable = True
        admin = people.users["admin"].id
        for token in await people.services.tokens.list(admin):
            await people.services.tokens.revoke(CLI_ACTOR, admin, token.id)
        revoked = [(await app.client.get("/metrics", headers=scraper)).status_code]
        accounts.reachable = False
        revoked += [(await app.client.get("/metrics", headers=scraper)).status_code]

    assert before == [200, 403]
    assert found["navi_turns_running"] == 0
    assert node.status_code == 200
    assert refused == [503, 503, 401, 503, 503]
    assert revoked == [401, 503]
