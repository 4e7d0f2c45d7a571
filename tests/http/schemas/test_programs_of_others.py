"""OpenAPI as programs of other people read it: a fuzzer of APIs and a generator of clients."""

import asyncio
import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.app import RunningApp

BIN = Path(sys.executable).parent
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
)


async def run(program: str, *arguments: str, folder: Path) -> tuple[int, str]:
    """Run a program of the environment; its status and what it prints."""
    process = await asyncio.create_subprocess_exec(
        str(BIN / program),
        *arguments,
        cwd=folder,
        env={"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(folder), "NO_PROXY": "*"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, printed.decode(errors="replace")


async def test_a_fuzzer_finds_no_answer_that_openapi_does_not_tell(
    own_app: RunningApp, tmp_path: Path
) -> None:
    status, printed = await run(
        "schemathesis",
        "run",
        f"{own_app.address.url}/schema",
        "--phases=coverage",
        "--generation-deterministic",
        "--continue-on-failure",
        "--no-color",
        "--exclude-path-regex=/events/stream$",  # of a session that it has found there is no end
        f"--checks={','.join(CHECKS)}",
        folder=tmp_path,
    )

    assert status == 0, printed[-8000:]


async def test_a_generated_client_talks_to_an_agent(
    own_app: RunningApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = tmp_path / "openapi.json"
    document.write_bytes((await own_app.client.get("/schema")).content)
    config = tmp_path / "config.yml"
    config.write_text("post_hooks: []\npackage_name_override: navi_api\n")
    status, printed = await run(
        "openapi-python-client",
        "generate",
        f"--path={document}",
        f"--config={config}",
        "--meta=none",
        "--output-path=navi_api",
        folder=tmp_path,
    )
    assert status == 0, printed[-4000:]
    monkeypatch.syspath_prepend(tmp_path)

    def module(name: str) -> Any:
        return importlib.import_module(f"navi_api.{name}")

    client = module("client").Client(base_url=own_app.address.url)
    new_session = module("models.new_session").NewSession(name="Plans")
    new_message = module("models.new_message").NewMessage(content="!say Hello")
    async with client:
        session = await module("api.default.create_session").asyncio(
            client=client, body=new_session
        )
        outcome = await module("api.default.send_message").asyncio(
            session.id, client=client, body=new_message
        )
        listed = await module("api.default.get_messages").asyncio(session.id, client=client)

    assert (session.name, outcome.outcome) == ("Plans", "completed")
    assert [message.content for message in listed.messages] == ["!say Hello", "Hello"]
