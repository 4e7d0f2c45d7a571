"""Every attack of the sandbox's own suite is denied, and the suite can tell."""

import asyncio
import functools
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from navi.adapters.sandbox import attacks
from navi.adapters.sandbox.self_test import Denial, targets_in, try_attacks
from tests.support.sandboxed import real_sandbox

BY_CALLS = ("outlive the call", "take too much memory together", "run on and on")


@functools.cache
def denials() -> Mapping[str, Denial]:
    """All attacks, tried once in a process of the tests."""
    tried = asyncio.run(try_attacks(real_sandbox()))
    return {denial.attack: denial for denial in tried}


@pytest.mark.parametrize("attack", [*attacks.ATTACKS, *BY_CALLS])
def test_is_denied(attack: str) -> None:
    denial = denials()[attack]

    assert denial.held, denial.how


# What anybody may do who is not in the sandbox, and what harms nothing when it is done.
WITHOUT_IT = (
    "read a file of navi's",
    "find a secret in its own environment",
    "connect to a server of this machine",
    "send a datagram to this machine",
    "connect to a Unix socket by its path",
    "connect to an abstract Unix socket",
    "see other processes",
    "leave a file that runs as its owner",
    "start processes without end",
    "take more memory than it has",
    "write a file that is too large, or says so",
    "fill the memory by files",
)


@pytest.fixture(scope="module")
def without_it(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bool]:
    """Whether attacks are denied that are tried outside of the sandbox."""

    async def attack(directory: Path) -> str:
        async with targets_in(directory) as found:
            code = f"{source}\n\ntry_all({found!r}, {WITHOUT_IT!r})\n"
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-c", code),
                stdout=subprocess.PIPE,
                cwd=directory,
                env={"SECRET": found["secret"]},
            )
            return (await process.communicate())[0].decode()

    source = Path(attacks.__file__).read_text()
    said = asyncio.run(attack(tmp_path_factory.mktemp("outside")))
    lines = [json.loads(line) for line in said.splitlines()]
    return {line["attack"]: line["held"] for line in lines}


@pytest.mark.parametrize("attack", WITHOUT_IT)
def test_gets_through_where_there_is_no_sandbox(
    attack: str, without_it: Mapping[str, bool]
) -> None:
    assert without_it[attack] is False
