"""The OpenAI door, asked by the official client for Node."""

import asyncio
import json
import subprocess
from pathlib import Path

from navi.domain.vocabulary.ids import SessionId
from tests.support import npm_packages
from tests.support.app import TIMEOUT, RunningApp
from tests.support.event_consumer import NODE

PROGRAM = Path(npm_packages.__file__).with_name("openai_client.mjs")
PACKAGES = PROGRAM.with_name("openai_packages")


async def test_the_official_client_for_node_gets_what_it_expects(app: RunningApp) -> None:
    packages = await asyncio.to_thread(npm_packages.installed, PACKAGES)
    entry = packages / "node_modules" / "openai" / "index.mjs"

    program = await asyncio.create_subprocess_exec(
        *(NODE, PROGRAM, f"{app.address.url}/v1", entry), stdout=subprocess.PIPE
    )
    async with asyncio.timeout(TIMEOUT):
        output, _ = await program.communicate()

    assert program.returncode == 0
    met = json.loads(output)
    assert {"assistant", "developer"} <= set(met["models"])
    assert met["whole"] == ["One", "hm", 17]
    assert met["streamed"] == ["Two", "stop", 17]
    assert met["errors"] == [[True, False, "model_not_found"], [False, True, "bad_input"]]
    first, third = met["sessions"]
    assert first == third
    assert (await app.world.types(SessionId(first))).count("turn_completed") == 3
    stopped = await app.world.seen(SessionId(met["left"]), "turn_stopped")
    assert json.loads(stopped.data) == {"by": "client"}
