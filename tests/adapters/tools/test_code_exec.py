"""The tool ``code_exec``: what the model reads, what is kept, and when it is not offered."""

import asyncio
import functools
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from navi.adapters.sandbox.proof import OFF, TRYING, ProvenSandbox
from navi.adapters.sandbox.self_test import Denial
from navi.adapters.tools import code_exec
from navi.adapters.tools.code_exec import CodeExecTool, CodeTools
from navi.adapters.tools.toolbox import ToolPorts, Tools
from navi.ports.tools import ToolResult, UnavailableTool
from tests.support.tool_context import context_in

MEBIBYTE = 1024 * 1024


@functools.cache
def proven(directory: Path) -> ProvenSandbox:
    """A sandbox that has stood its attacks, in a process of the tests once."""

    async def prove() -> ProvenSandbox:
        sandbox = ProvenSandbox(wanted=True, packages=None, proof=directory / "proof.json")
        await sandbox.find("/usr/bin:/bin")
        await sandbox.prove()
        return sandbox

    return asyncio.run(prove())


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> CodeExecTool:
    """The tool on the sandbox of this machine."""
    sandbox = proven(tmp_path_factory.mktemp("proof"))
    assert sandbox.reason is None, sandbox.reason
    return CodeExecTool(sandbox)


async def run(
    tool: CodeExecTool,
    workspace: Path,
    code: str,
    *,
    language: str = "bash",
    timeout: float = 60,  # noqa: ASYNC109 - the tool's own
    stop: asyncio.Event | None = None,
    show: Callable[[str], None] = lambda _: None,
) -> ToolResult:
    """Call the tool."""
    context = context_in(workspace, stop=stop, show=show)
    return await tool.run({"language": language, "code": code, "timeout": timeout}, context)


async def test_the_model_reads_the_output_and_the_exit_status(
    tool: CodeExecTool, tmp_path: Path
) -> None:
    result = await run(tool, tmp_path, "print('4')", language="python")

    assert result == ToolResult(outcome="ok", output="4\n[exit status 0]")


async def test_another_exit_status_is_an_error(tool: CodeExecTool, tmp_path: Path) -> None:
    result = await run(tool, tmp_path, "echo -n no; exit 3")

    assert result == ToolResult(outcome="error", output="no\n[exit status 3]")


async def test_output_is_shown_as_it_comes(tool: CodeExecTool, tmp_path: Path) -> None:
    stop, shown = asyncio.Event(), list[str]()

    def show(text: str) -> None:
        shown.append(text)
        stop.set()

    result = await run(tool, tmp_path, "echo begun; sleep 600", stop=stop, show=show)

    assert shown[0] == "begun\n"
    assert result == ToolResult(outcome="error", output="begun\n[stopped]")


async def test_a_time_out_says_so(tool: CodeExecTool, tmp_path: Path) -> None:
    result = await run(tool, tmp_path, "echo begun; sleep 600", timeout=2)

    assert result.outcome == "error"
    assert result.output.startswith("begun\n[ended after 2 s")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"language": "perl", "code": "1"}, "language"),
        ({"language": "bash"}, "code"),
        ({"language": "bash", "code": "1", "timeout": 901}, "timeout"),
        ({"language": "bash", "code": "1", "timeout": 0}, "timeout"),
    ],
)
def test_wrong_arguments_are_named(
    arguments: dict[str, str | int], complaint: str, tool: CodeExecTool
) -> None:
    assert complaint in (tool.check({**arguments}) or "")


async def test_of_a_long_output_the_model_reads_both_ends_and_the_rest_is_kept(
    tool: CodeExecTool, tmp_path: Path
) -> None:
    result = await run(tool, tmp_path, "seq 100000")

    assert result.output.startswith("1\n2\n3\n")
    assert result.output.endswith("99999\n100000\n[exit status 0]")
    assert len(result.output) < 26_000
    assert "the whole output is in the file .navi/outputs/call_00000000000a.txt" in result.output
    assert result.truncated
    kept = (tmp_path / ".navi/outputs/call_00000000000a.txt").read_text()
    assert kept == "".join(f"{number}\n" for number in range(1, 100_001))


async def test_output_is_kept_up_to_64_mebibytes(tool: CodeExecTool, tmp_path: Path) -> None:
    result = await run(tool, tmp_path, "head -c 80M /dev/zero | tr '\\0' x; echo; echo end")

    kept = tmp_path / ".navi/outputs/call_00000000000a.txt"
    assert kept.stat().st_size == 64 * MEBIBYTE
    assert "the first 67,108,864 bytes of the output are in the file" in result.output
    assert result.output.endswith("\nend\n[exit status 0]")


async def test_output_that_is_no_text_becomes_text(tool: CodeExecTool, tmp_path: Path) -> None:
    result = await run(tool, tmp_path, r"printf 'a\0b\xff\xc3'; printf '\xa4'")

    assert result.output == "a\ufffdb\ufffdä\n[exit status 0]"


async def test_the_preview_is_the_code_itself(tool: CodeExecTool, tmp_path: Path) -> None:
    code = "import os\nprint(os.getcwd())"

    preview = await tool.preview({"language": "python", "code": code}, tmp_path)

    assert preview == f"python, at most 120 s:\n\n{code}"


# --- when it is offered ---


def box(sandbox: ProvenSandbox, tmp_path: Path) -> Tools:
    """The built-in tools."""
    return Tools(ToolPorts(), own_tools=tmp_path, environment={}, sources=(CodeTools(sandbox),))


async def test_is_offered_once_its_attacks_were_denied(tmp_path: Path) -> None:
    sandbox = ProvenSandbox(wanted=True, packages=None, proof=tmp_path / "proof.json")
    tools = box(sandbox, tmp_path)
    await sandbox.find("/usr/bin:/bin")
    before = tools.find("code_exec"), tools.unavailable()

    await sandbox.prove()

    assert before[0] is None
    assert UnavailableTool(name="code_exec", reason=TRYING) in before[1]
    assert tools.find("code_exec") in tools.all()
    assert "code_exec" not in [tool.name for tool in tools.unavailable()]


async def test_it_may_soon_come_while_the_sandbox_is_being_tried_and_only_then(
    tmp_path: Path,
) -> None:
    sandbox = ProvenSandbox(wanted=True, packages=None, proof=tmp_path / "proof.json")
    tools = box(sandbox, tmp_path)
    await sandbox.find("/usr/bin:/bin")
    before = tools.starting("code_exec"), tools.starting("ssh")

    await sandbox.prove()

    assert before == (True, False)
    assert not tools.starting("code_exec")


async def test_it_is_not_waited_for_as_long_as_the_sandbox_may_be_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_exec, "STARTING_SECONDS", 0.0)
    sandbox = ProvenSandbox(wanted=True, packages=None, proof=tmp_path / "proof.json")
    tools = box(sandbox, tmp_path)
    await sandbox.find("/usr/bin:/bin")

    assert sandbox.reason == TRYING
    assert not tools.starting("code_exec")


async def test_what_has_held_is_offered_at_once_at_the_next_start(tmp_path: Path) -> None:
    proof = tmp_path / "proof.json"
    first = ProvenSandbox(wanted=True, packages=None, proof=proof)
    await first.find("/usr/bin:/bin")
    await first.prove()

    second = ProvenSandbox(wanted=True, packages=None, proof=proof)
    await second.find("/usr/bin:/bin")

    assert (first.reason, second.reason) == (None, None)


async def test_a_proof_of_something_else_does_not_count(tmp_path: Path) -> None:
    proof = tmp_path / "proof.json"
    first = ProvenSandbox(wanted=True, packages=None, proof=proof)
    await first.find("/usr/bin:/bin")
    await first.prove()
    facts = json.loads(proof.read_text())["facts"]
    proof.write_text(json.dumps({"facts": facts[::-1]}))

    second = ProvenSandbox(wanted=True, packages=None, proof=proof)
    await second.find("/usr/bin:/bin")

    assert second.reason == TRYING


async def test_is_withdrawn_where_an_attack_gets_through(tmp_path: Path) -> None:
    async def one_gets_through(_: object) -> tuple[Denial, ...]:
        return (
            Denial(attack="read a file", held=False, how="secret"),
            Denial(attack="mount", held=True, how="EPERM"),
        )

    proof = tmp_path / "proof.json"
    before = ProvenSandbox(wanted=True, packages=None, proof=proof)
    await before.find("/usr/bin:/bin")
    await before.prove()
    sandbox = ProvenSandbox(wanted=True, packages=None, proof=proof, attack=one_gets_through)
    await sandbox.find("/usr/bin:/bin")

    await sandbox.prove()

    assert sandbox.reason == "the sandbox does not hold: read a file (secret)"
    assert sandbox.sandbox is None
    assert not proof.exists()


async def test_is_withdrawn_where_the_attacks_break_off(tmp_path: Path) -> None:
    """Nobody waits for the task that tries them: what it raises must not leave an old proof in force."""

    async def break_off(_: object) -> tuple[Denial, ...]:
        raise KeyError("attack")

    proof = tmp_path / "proof.json"
    before = ProvenSandbox(wanted=True, packages=None, proof=proof)
    await before.find("/usr/bin:/bin")
    await before.prove()
    sandbox = ProvenSandbox(wanted=True, packages=None, proof=proof, attack=break_off)
    await sandbox.find("/usr/bin:/bin")

    await sandbox.prove()

    assert (sandbox.reason, sandbox.sandbox) == ("its attacks could not be tried (KeyError)", None)
    assert not proof.exists()


@pytest.mark.parametrize(
    ("wanted", "packages", "reason"),
    [
        (False, None, OFF),
        (True, Path("/nowhere"), "NAVI_CODE_PACKAGES_DIR: /nowhere is no directory"),
    ],
)
async def test_says_why_it_is_not_offered(
    wanted: bool, packages: Path | None, reason: str, tmp_path: Path
) -> None:
    sandbox = ProvenSandbox(wanted=wanted, packages=packages, proof=tmp_path / "proof.json")

    await sandbox.find("/usr/bin:/bin")
    await sandbox.prove()

    assert UnavailableTool(name="code_exec", reason=reason) in box(sandbox, tmp_path).unavailable()
