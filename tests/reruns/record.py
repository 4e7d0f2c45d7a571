"""Record the sessions of this directory again: a real server, led through everything.

    python -m tests.reruns.record

They fail where prompts, rules or renderers change: that is what they are for. Where the change is
meant, record them again, and look at what else came out another way.
"""

import asyncio
import tempfile
from pathlib import Path

from tests.released.record import SETTINGS, lead
from tests.support.navi_process import NaviProcess, running_navi

HERE = Path(__file__).parent


async def main() -> None:
    """Put each session, with the test that runs it again, in place of the one before."""
    with tempfile.TemporaryDirectory() as folder:
        async with running_navi(Path(folder) / "data", **SETTINGS) as navi:
            await lead(navi)
            sessions = (await navi.get("/sessions"))["sessions"]
            [everything] = [s["id"] for s in sessions if s["pinned"]]
            [planned] = [s["id"] for s in sessions if s["profile_id"] == "autonomous"]
            await navi.until(planned, "session_renamed")
            await save(navi, everything, "everything")
            await save(navi, planned, "planned")


async def save(navi: NaviProcess, session_id: str, name: str) -> None:
    """Write a session here under a name."""
    for path in (HERE / f"{name}.jsonl", HERE / f"test_{name}.py"):
        path.unlink(missing_ok=True)
    ended = await navi.command("rerun", session_id, "--save", str(HERE / name))
    assert ended.status == 0, ended.stdout + ended.stderr


if __name__ == "__main__":
    asyncio.run(main())
