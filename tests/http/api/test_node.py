"""The health of the node, on a log in memory."""

from pathlib import Path
from typing import Any

from navi.projections.registry import PROJECTIONS
from tests.support.agent_node import WINDOW, World
from tests.support.app import RunningApp, SwitchedLog, next_frame, running_app
from tests.support.model_server import MODEL


async def health(app: RunningApp) -> Any:
    answer = await app.client.get("/node")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_node_tells_what_it_runs_on(own_app: RunningApp) -> None:
    app = own_app
    session_id = await app.session()

    async with app.socket(session_id) as socket:
        await next_frame(socket)
        found = await health(app)

    assert (found["node"], found["version"], found["status"]) == (app.node.id, "0.0.0", "ready")
    assert (found["postgres"]["ok"], found["sockets"], found["turns_running"]) == (True, 1, 0)
    assert found["nats"] == {"state": "connected", "reason": None, "lag": 0}
    assert {one["name"]: one["lag"] for one in found["projections"]} == {
        one.name: 1 for one in PROJECTIONS
    }
    assert found["models"] == [
        {
            "backend": f"ollama@{app.models.url}",
            "name": MODEL,
            "context_window": WINDOW,
            "slots": 16,
            "in_use": 0,
            "waiting": 0,
            "state": "ready",
        }
    ]


async def test_a_node_without_postgres_says_so(tmp_path: Path) -> None:
    log = SwitchedLog()
    async with running_app(tmp_path, world=World(log)) as app:
        log.reachable = False
        found = await health(app)

    assert found["postgres"] == {"ok": False, "ms": None}
    assert (found["projections"], found["nats"]["lag"]) == ([], None)
