"""The window of a session: of its last call, else of the call that would be made now."""

import json
from pathlib import Path

import pytest

from navi.adapters.llm.demo import DemoModel
from navi.adapters.llm.ollama import Ollama
from navi.adapters.llm.servers import PooledServer, ServerPool
from navi.adapters.profiles.folder import FolderProfiles
from navi.application.reading.context_windows import KEPT_SECONDS, ContextWindows
from navi.domain.session.session import Session
from navi.ports.language_model import Capacity
from tests.support.manual_clock import ManualClock


class CountedModel(DemoModel):
    """Counts how often somebody asks what it can."""

    asked = 0

    async def capacity(self, model: str) -> Capacity:
        self.asked += 1
        return await super().capacity(model)


@pytest.fixture
def profiles(tmp_path: Path) -> FolderProfiles:
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "config.json").write_text(json.dumps({"num_ctx": 2048}))
    return FolderProfiles(tmp_path)


def new(profile_id: str = "assistant", window: int | None = None) -> Session:
    return Session(profile_id=profile_id, context_window=window)


async def test_the_last_call_says_it_else_the_profile_else_the_server(
    profiles: FolderProfiles,
) -> None:
    clock, model = ManualClock(), CountedModel(pace=0, chunk_timeout=60)
    pool = ServerPool([PooledServer(model=model, num_ctx=4096)], default_model="m", clock=clock)
    windows = ContextWindows(profiles, pool, clock)

    sessions = (new(window=999), new("small", 7), new("small"), new(), new("gone"))

    assert await windows.of(sessions) == (999, 7, 2048, 4096, 4096)
    assert model.asked == 1
    clock.wind(KEPT_SECONDS)
    assert await windows.of(sessions[3:]) == (4096, 4096)
    assert model.asked == 2


async def test_it_is_not_known_where_no_server_tells_a_model(profiles: FolderProfiles) -> None:
    server = Ollama("nobody", "http://127.0.0.1:1", headers={}, chunk_timeout=1.0)
    pool = ServerPool(
        [PooledServer(model=server, num_ctx=4096)], default_model=None, clock=ManualClock()
    )
    try:
        windows = ContextWindows(profiles, pool, ManualClock())
        assert await windows.of((new(), new("small"))) == (None, 2048)
    finally:
        await pool.aclose()
