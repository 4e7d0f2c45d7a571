"""Code in a real navi: proven at the start, shown while it runs, and gone with a stop and a kill."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.navi_process import NaviProcess, running_navi
from tests.support.sandboxed import Marked

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def navi(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[NaviProcess, None]:
    """A navi that offers code."""
    data = tmp_path_factory.mktemp("navi") / "data"
    async with running_navi(data, NAVI_CODE_EXEC="auto") as running:
        await running.has_logged("sandbox_holds")
        yield running


def call(language: str, code: str) -> str:
    """A script of the demo model that runs code."""
    return f"!tool code_exec {json.dumps({'language': language, 'code': code})}"


async def events(navi: NaviProcess, session_id: str) -> list[dict[str, Any]]:
    """The session's log."""
    return (await navi.get(f"/sessions/{session_id}/events"))["events"]


async def of_type(navi: NaviProcess, session_id: str, kind: str) -> list[dict[str, Any]]:
    """The data of its events of a type."""
    return [e["data"] for e in await events(navi, session_id) if e["type"] == kind]


async def test_is_offered_once_the_sandbox_holds(navi: NaviProcess) -> None:
    tools = await navi.get("/tools")
    ready = await navi.get("/health/ready")

    assert "code_exec" in [tool["name"] for tool in tools["tools"]]
    assert "code_exec" not in [tool["name"] for tool in tools["unavailable"]]
    assert ready["unavailable"] == tools["unavailable"]


async def test_runs_code_on_the_files_of_the_session(navi: NaviProcess) -> None:
    session_id = await navi.new_session()
    program = "def mean(numbers):\n    return sum(numbers) / len(numbers) + 1\n"
    tests = (
        "import unittest\nfrom program import mean\nclass T(unittest.TestCase):\n"
        "    def test_mean(self): self.assertEqual(mean([1, 3]), 2)\n"
    )
    script = [
        f"!tool filesystem {json.dumps({'action': 'write', 'path': 'program.py', 'content': program})}",
        f"!tool filesystem {json.dumps({'action': 'write', 'path': 'test_program.py', 'content': tests})}",
        "!then",
        call("bash", "cp program.py /tmp/before.py; python3 -m unittest 2>&1 | tail -1"),
        call(
            "bash",
            "cp program.py before.py; sed -i 's/ + 1//' program.py; "
            "diff before.py program.py; python3 -m unittest 2>&1 | tail -1",
        ),
        "!then",
        "!results",
    ]

    await navi.say(session_id, "\n".join(script))

    results = await of_type(navi, session_id, "tool_finished")
    assert [result["outcome"] for result in results] == ["ok", "ok", "ok", "ok"]
    assert results[2]["output"] == "FAILED (failures=1)\n[exit status 0]"
    assert results[3]["output"].endswith("\nOK\n[exit status 0]")
    assert "<     return sum(numbers) / len(numbers) + 1" in results[3]["output"]


async def test_output_comes_in_deltas_that_make_up_the_whole(navi: NaviProcess) -> None:
    session_id = await navi.new_session()

    await navi.say(
        session_id,
        call("python", "import time\nfor n in range(30):\n  print(n); time.sleep(0.01)"),
    )

    deltas = await of_type(navi, session_id, "tool_output_delta")
    [result] = await of_type(navi, session_id, "tool_finished")
    text = "".join(delta["text"] for delta in deltas)
    assert text == "".join(f"{number}\n" for number in range(30))
    assert result["output"] == f"{text}[exit status 0]"
    assert {delta["call_id"] for delta in deltas} == {result["call_id"]}


async def test_a_stop_ends_code_and_all_that_it_started(navi: NaviProcess) -> None:
    session_id, marked = await navi.new_session(), Marked()
    await navi.drop(session_id, call("bash", marked.sleeper()))
    await navi.until(session_id, "tool_output_delta")
    running = await marked.count()

    await navi.post(f"/sessions/{session_id}/stop")

    await navi.until(session_id, "turn_stopped")
    [result] = await of_type(navi, session_id, "tool_finished")
    assert (result["outcome"], result["output"]) == ("error", "ready\n[stopped]")
    assert (running >= 2, await marked.count()) == (True, 0)


async def test_code_dies_with_navi_and_is_not_run_again(navi: NaviProcess) -> None:
    session_id, marked = await navi.new_session(), Marked()
    await navi.drop(session_id, call("bash", f"echo once >> runs; {marked.sleeper()}"))
    await navi.until(session_id, "tool_output_delta")
    running = await marked.count()

    await navi.kill()

    await marked.gone()
    await navi.start()
    await navi.until(session_id, "turn_completed")
    [result] = await of_type(navi, session_id, "tool_finished")
    assert (running >= 2, result["outcome"]) == (True, "unknown")
    offered = await navi.get("/tools")  # at once: what held before the kill still does
    assert "code_exec" in [tool["name"] for tool in offered["tools"]]


async def test_a_person_edits_code_and_that_is_what_is_run(navi: NaviProcess) -> None:
    profile = navi.data_dir / "profiles" / "asking"
    profile.mkdir(parents=True)
    rules = [{"tool": "code_exec", "then": "ask"}]
    (profile / "config.json").write_text(json.dumps({"approvals": rules}))
    session_id = (await navi.post("/sessions", {"profile_id": "asking"}))["id"]
    script = f"{call('bash', 'echo mine > who; cat who')}\n!then\n!results"
    [waiting] = (await navi.say(session_id, script))["waiting"]
    edited = {"language": "bash", "code": "echo yours > who; cat who"}
    path = f"/sessions/{session_id}/approvals/{waiting['call_id']}"

    async with navi.client() as client:
        misfit = await client.post(
            path, json={"decision": "allow", "arguments": {"language": "perl", "code": "1"}}
        )
    await navi.post(path, {"decision": "allow", "arguments": edited})

    await navi.until(session_id, "turn_completed")
    [asked] = await of_type(navi, session_id, "approval_requested")
    [started] = await of_type(navi, session_id, "tool_started")
    [result] = await of_type(navi, session_id, "tool_finished")
    assert misfit.status_code == 400
    assert asked["preview"] == "bash, at most 120 s:\n\necho mine > who; cat who"
    assert started["arguments"] == edited
    assert result["outcome"] == "ok"
    assert result["output"].startswith("[The user changed the arguments of this call to ")
    assert result["output"].endswith("]\nyours\n[exit status 0]")


async def test_what_code_leaves_behind_hinders_no_fork_export_rerun_or_erasing(
    navi: NaviProcess,
) -> None:
    session_id = await navi.new_session()
    left = (
        "ln -s / root; mkfifo pipe; truncate -s 64M sparse; touch $(printf 'y%.0s' $(seq 255)); "
        "echo kept > kept; mkdir -p a/b; chmod 000 a/b a; "
        "python3 -c \"import os\nfor n in range(90): os.mkdir('d'); os.chdir('d')\"; touch $'\\xff\\n'; chmod 000 ."
    )
    await navi.say(session_id, call("bash", left))

    listed = await navi.say(session_id, '!tool filesystem {"action": "list"}\n!then\n!results')
    head = (await navi.get(f"/sessions/{session_id}"))["seq"]
    fork = (await navi.post(f"/sessions/{session_id}/fork", {"at": head}))["id"]
    uploads = await navi.get(f"/sessions/{session_id}/files")
    exported = await navi.command("export", session_id)
    again = await navi.command("rerun", session_id)
    erased = await navi.command("erase", session_id, "--yes")

    assert "pipe (a link or device: cannot be opened)" in listed["content"]
    assert sorted(p.name for p in (navi.data_dir / "files" / fork).iterdir() if p.is_file()) == [
        "kept",
        "sparse",
        "y" * 255,
        "\udcff\n",
    ]
    assert uploads == {"files": []}
    assert (exported.status, again.status) == (0, 0), exported.stderr + again.stdout
    assert erased.status == 0, erased.stderr
    assert not (navi.data_dir / "files" / session_id).exists()


async def test_where_it_is_off_it_says_so(navi: NaviProcess) -> None:
    await navi.stop()
    await navi.start(NAVI_CODE_EXEC="off")

    tools = await navi.get("/tools")
    session_id = await navi.new_session()
    await navi.say(session_id, call("bash", "echo"))

    assert {"name": "code_exec", "reason": "NAVI_CODE_EXEC is off"} in tools["unavailable"]
    [result] = await of_type(navi, session_id, "tool_finished")
    assert result["outcome"] == "error"
    assert result["output"].startswith("There is no tool 'code_exec' for you.")
