"""What a call in the sandbox gives, what bounds it, and that nothing is left of it."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from navi.adapters.sandbox.sandbox import SandboxFault, SandboxLimits, find_sandbox
from tests.support.sandboxed import Marked, run_code

MEBIBYTE = 1024 * 1024


async def test_says_how_code_exits(tmp_path: Path) -> None:
    said = await run_code(tmp_path, "echo out; echo err >&2; exit 7")

    assert (said.ended.status, said.ended.ended_by, said.text) == (7, None, "out\nerr\n")


async def test_a_signal_is_128_and_its_number(tmp_path: Path) -> None:
    said = await run_code(tmp_path, "import os; os.abort()", language="python")

    assert said.ended.status == 128 + signal.SIGABRT


async def test_shows_the_line_of_python_that_failed(tmp_path: Path) -> None:
    said = await run_code(tmp_path, "def f():\n    return 1 / 0\nf()", language="python")

    assert said.ended.status == 1
    assert "return 1 / 0" in said.text
    assert "ZeroDivisionError" in said.text


async def test_output_comes_while_code_runs(tmp_path: Path) -> None:
    stop, said = asyncio.Event(), "import time; print('first', end=''); time.sleep(600)"

    ended = await run_code(
        tmp_path, said, language="python", stop=stop, on_output=lambda _: stop.set()
    )

    assert (ended.text, ended.ended.ended_by) == ("first", "stop")


async def test_works_on_the_files_of_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "ours.py").write_text("ANSWER = 42\n")
    (tmp_path / "ours.py").chmod(0o600)
    (tmp_path / "uploads").mkdir(mode=0o700)
    (tmp_path / "uploads" / "data.txt").write_text("from the user\n")

    said = await run_code(
        tmp_path,
        "import pathlib, ours\n"
        "pathlib.Path('answer.txt').write_text(str(ours.ANSWER))\n"
        "pathlib.Path('ours.py').write_text('ANSWER = 43')\n"
        "print(pathlib.Path('uploads/data.txt').read_text())\n",
        language="python",
    )

    assert said.text == "from the user\n\n"
    assert (tmp_path / "answer.txt").read_text() == "42"
    assert (tmp_path / "ours.py").read_text() == "ANSWER = 43"


async def test_python_has_its_standard_library_and_nothing_else(tmp_path: Path) -> None:
    said = await run_code(
        tmp_path, "import sqlite3, ssl, asyncio\nimport msgspec", language="python"
    )

    assert said.text.endswith("ModuleNotFoundError: No module named 'msgspec'\n")


async def test_packages_of_the_operator_can_be_imported_and_not_changed(tmp_path: Path) -> None:
    packages, workspace = tmp_path / "packages", tmp_path / "workspace"
    packages.mkdir()
    workspace.mkdir()
    (packages / "granted.py").write_text("WORD = 'granted'\n")
    sandbox = await asyncio.to_thread(find_sandbox, "/usr/bin", packages=packages)

    said = await run_code(
        workspace,
        "import granted\nprint(granted.WORD)\nopen(granted.__file__, 'w')",
        language="python",
        sandbox=sandbox,
    )

    assert said.text.startswith("granted\n")
    assert "Read-only file system" in said.text


async def test_ten_calls_do_not_see_each_other(tmp_path: Path) -> None:
    async def call(number: int) -> str:
        workspace = tmp_path / str(number)
        workspace.mkdir()
        # Each waits for the others, through the one thing that they share: how long they take.
        code = (
            f"echo {number} > mine; echo {number} > /tmp/mine; sleep 0.5\n"
            "cat /workspace/* /tmp/* 2>/dev/null | sort -u | tr '\\n' ' '\n"
            "ls -d /proc/[0-9]* | wc -l\n"
        )
        return (await run_code(workspace, code)).text

    seen = await asyncio.gather(*(call(number) for number in range(10)))

    for number, text in enumerate(seen):
        found, processes = text.split()
        assert found == str(number)
        assert int(processes) <= 5  # its own bash with the pipe, and the first process


# --- nothing is left ---


async def test_nothing_survives_the_end_of_the_code(tmp_path: Path) -> None:
    marked = Marked()

    await run_code(tmp_path, marked.sleeper().rpartition("exec ")[0])

    assert await marked.count() == 0


async def test_nothing_survives_the_time_out(tmp_path: Path) -> None:
    marked = Marked()

    said = await run_code(tmp_path, marked.sleeper(), seconds=3)

    assert (said.ended.ended_by, said.ended.status) == ("time", None)
    assert await marked.count() == 0


async def test_nothing_survives_a_stop(tmp_path: Path) -> None:
    marked, stop, ready = Marked(), asyncio.Event(), asyncio.Event()
    call = asyncio.create_task(
        run_code(tmp_path, marked.sleeper(), stop=stop, on_output=lambda _: ready.set())
    )
    await ready.wait()
    running = await marked.count()

    stop.set()

    assert (await call).ended.ended_by == "stop"
    assert (running >= 2, await marked.count()) == (True, 0)


class OutputRefused(Exception):
    """Whoever takes the output has failed."""


async def test_nothing_survives_when_output_cannot_be_taken(tmp_path: Path) -> None:
    marked = Marked()

    def refuse(_: str) -> None:
        raise OutputRefused

    with pytest.raises(OutputRefused):
        await run_code(tmp_path, marked.sleeper(), on_output=refuse)

    assert await marked.count() == 0


async def test_nothing_survives_a_call_that_is_cancelled(tmp_path: Path) -> None:
    marked, ready = Marked(), asyncio.Event()
    call = asyncio.create_task(
        run_code(tmp_path, marked.sleeper(), on_output=lambda _: ready.set())
    )
    await ready.wait()

    call.cancel()
    await asyncio.wait({call})

    assert call.cancelled()
    assert await marked.count() == 0


SERVER = """
import asyncio, sys
from pathlib import Path
from tests.support.sandboxed import run_code

asyncio.run(run_code(Path(sys.argv[1]), sys.argv[2], on_output=lambda text: print(text, flush=True)))
"""


@pytest.mark.parametrize("victim", ["navi", "keeper", "both"])
async def test_nothing_survives_a_kill(victim: str, tmp_path: Path) -> None:
    marked = Marked()
    server = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", SERVER, str(tmp_path), marked.sleeper()),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert server.stdout is not None
    assert (await server.stdout.readline()).strip() == b"ready"
    keeper = psutil.Process(server.pid).children()[0]
    running = await marked.count()

    if victim != "keeper":
        server.kill()
    if victim != "navi":
        keeper.kill()

    assert running >= 2
    await marked.gone()
    await server.wait()
    await asyncio.to_thread(psutil.wait_procs, [keeper], timeout=30)
    assert not keeper.is_running()


# --- bounds ---


async def test_memory_that_processes_share_counts_once(tmp_path: Path) -> None:
    code = (
        "import os, time\n"
        "held = b'x' * (60 << 20)\n"
        "children = [os.fork() for _ in range(3)]\n"
        "time.sleep(0.3)\n"
        "print('done') if all(children) else os._exit(0)\n"
    )

    said = await run_code(
        tmp_path, code, language="python", limits=SandboxLimits(memory=128 * MEBIBYTE)
    )

    assert (said.ended.status, said.ended.ended_by) == (0, None)


@pytest.mark.parametrize(
    "code",
    [
        "for place in ('/tmp', '/dev/shm'):\n for n in range(4): open(f'{place}/{n}', 'wb').write(b'x' * (15 << 20))",
        "import os\nfor n in range(200_000): os.mknod(f'/tmp/{n}')",
        "import socket\nheld = [s for _ in range(100) for s in socket.socketpair()]\nimport os\nos.fork(); os.fork(); held += [s for _ in range(20) for s in socket.socketpair()]",
    ],
    ids=["files in memory", "empty files in memory", "buffers of sockets"],
)
async def test_memory_counts_wherever_it_is(code: str, tmp_path: Path) -> None:
    said = await run_code(
        tmp_path,
        f"{code}\nimport time; time.sleep(600)",
        language="python",
        limits=SandboxLimits(memory=64 * MEBIBYTE),
    )

    assert said.ended.ended_by == "memory", said.text


SMALL = SandboxLimits(workspace=48 * MEBIBYTE)


async def test_a_workspace_that_grows_too_large_ends_the_call(tmp_path: Path) -> None:
    code = "for n in $(seq 100); do head -c 8M /dev/zero > f$n; sleep 0.1; done"

    said = await run_code(tmp_path, code, limits=SMALL)

    assert said.ended.ended_by == "workspace"
    assert said.ended.workspace_bytes > SMALL.workspace


async def test_in_a_full_workspace_code_can_only_make_room(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * SMALL.workspace)

    more = "head -c 1M /dev/zero > more; echo $?; "
    full = await run_code(tmp_path, f"{more} rm large; echo $?", limits=SMALL)
    after = await run_code(tmp_path, more, limits=SMALL)

    assert full.ended.full
    assert full.text.split()[-2:] != ["0", "0"]
    assert full.text.endswith("0\n")
    assert (after.ended.full, after.text) == (False, "0\n")


HOSTILE = {
    "a link to everything": "ln -s / root; ln -s /etc/passwd passwd; ln -s loop loop",
    "a pipe": "mkfifo pipe; mkfifo uploads2",
    "a socket": "python3 -c \"import socket; socket.socket(1).bind('socket')\"",
    "a name of 255 bytes": "touch $(printf 'x%.0s' $(seq 255)); touch $'\\xff\\xfe\\n\\e[31m'",
    "many files": "python3 -c \"import os\nfor n in range(5_000): os.mknod(f'many{n}')\"",
    "deep directories": "python3 -c \"import os\nfor _ in range(1_500): os.mkdir('d'); os.chdir('d')\"",
    "closed directories": "mkdir -p a/b; echo x > a/b/c; chmod 000 a/b a .",
    "a sparse file": "truncate -s 60M sparse; truncate -s 1T sparse2; true",
}


CLEAN_UP = "(chmod -R u+rwx .; rm -rf ./*) 2>/dev/null; ls"


@pytest.mark.parametrize("left", HOSTILE)
async def test_what_code_leaves_behind_does_not_harm_the_next_call(
    left: str, tmp_path: Path
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()

    first = await run_code(workspace, HOSTILE[left])
    second = await run_code(workspace, CLEAN_UP)

    assert first.ended.ended_by in (None, "workspace"), first.text  # nested too deeply
    assert (second.ended.status, second.text) == (0, "uploads\n"), second.text
    assert stat.S_IMODE(workspace.stat().st_mode) & 0o700 == 0o700


async def test_a_link_in_the_place_of_the_uploads_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "uploads").symlink_to(tmp_path / "secret")

    with pytest.raises(SandboxFault, match="uploads in the session's directory is no"):
        await run_code(tmp_path / "workspace", "ls uploads")


async def test_files_of_the_code_are_of_nobody_where_navi_is_root(tmp_path: Path) -> None:
    await run_code(tmp_path, "echo mine > mine; umask")

    owner = (tmp_path / "mine").stat().st_uid
    assert owner != 0
    assert owner == os.geteuid() or os.geteuid() == 0
