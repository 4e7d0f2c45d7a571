"""``python -m bench.service.inside serve``: navi as it is, and every few seconds what it holds inside.

A line of JSON goes to the file ``BENCH_INSIDE``: the moment on the machine's monotonic clock, the tasks that
are not collected, and the blocks of memory that Python has given out.
"""

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Sized
from pathlib import Path

from navi.cli import main

VARIABLE = "BENCH_INSIDE"
EVERY_SECONDS = 5.0


def _tell(path: Path) -> None:
    while True:
        time.sleep(EVERY_SECONDS)
        # From another thread: ``asyncio.all_tasks`` wants the loop, and ``gc.get_objects`` breaks tuples
        # that are being built meanwhile.
        line = {
            "at": time.monotonic(),
            "tasks": len(_tasks()),
            "blocks": sys.getallocatedblocks(),
        }
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def _tasks() -> Sized:
    """Every task of the process, under the name that this Python has for it."""
    return getattr(asyncio.tasks, "_all_tasks", None) or getattr(
        asyncio.tasks, "_scheduled_tasks", ()
    )


if __name__ == "__main__":
    threading.Thread(target=_tell, args=(Path(os.environ[VARIABLE]),), daemon=True).start()
    main()
