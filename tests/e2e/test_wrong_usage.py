"""What ends before it has begun: one clear line, the right exit status, no traceback."""

from pathlib import Path

import pytest

from tests.support.counting_server import CountingServer
from tests.support.navi_process import run_navi


@pytest.mark.parametrize("setting", ["OLLAMA_BACKENDS_FILE", "OPENAI_BACKENDS_FILE"])
async def test_a_file_that_a_setting_names_is_missed_before_anything_starts(
    tmp_path: Path, setting: str
) -> None:
    file = tmp_path / "missing.json"

    ended = await run_navi("serve", data_dir=tmp_path / "data", settings={setting: str(file)})

    assert (ended.status, ended.stdout, ended.stderr) == (
        2,
        "",
        f"navi: {setting}: {file}: No such file or directory\n",
    )
    assert not (tmp_path / "data").exists()


async def test_an_option_takes_the_place_of_the_setting(tmp_path: Path) -> None:
    ended = await run_navi(
        "serve", "--port", "99999", data_dir=tmp_path, settings={"NAVI_PORT": "0"}
    )

    assert (ended.status, ended.stdout, ended.stderr) == (
        2,
        "",
        "navi: NAVI_PORT: 99999 is not between 0 and 65535\n",
    )


async def test_a_data_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")

    ended = await run_navi("sessions", data_dir=file)

    assert (ended.status, ended.stderr) == (2, f"navi: NAVI_DATA_DIR: {file} is not a directory\n")


async def test_nobody_to_chat_with_is_told_with_the_way_out(tmp_path: Path) -> None:
    ended = await run_navi("chat", "hello", data_dir=tmp_path, settings={"NAVI_PORT": "1"})

    assert (ended.status, ended.stdout, ended.stderr) == (
        1,
        "",
        "navi: navi does not run here; start it with `navi serve`\n",
    )


async def test_a_postgres_that_is_away_is_told_in_a_sentence(tmp_path: Path) -> None:
    dsn = "postgresql://navi:geheim@127.0.0.1:1/navi"

    ended = await run_navi("sessions", data_dir=tmp_path, settings={"DATABASE_URL": dsn})

    assert (ended.status, ended.stdout, len(ended.stderr.splitlines())) == (1, "", 1)
    assert "geheim" not in ended.stderr


async def test_window_and_slots_are_told_with_where_they_are_from(tmp_path: Path) -> None:
    async with CountingServer(window=2048, slots=2) as server:
        settings = {
            "NAVI_LLM": "openai",
            "OPENAI_BASE_URL": server.openai_url,
            "NAVI_MODEL_SLOTS": "3",
        }
        told = await run_navi("status", data_dir=tmp_path, settings=settings)
        as_json = await run_navi("status", "--json", data_dir=tmp_path, settings=settings)

    assert as_json.json["model"] == {
        "backend": "openai",
        "name": server.models[0],
        "context_window": 2048,
        "slots": 3,
    }
    assert "2048 tokens a call (the server says so)" in told.stdout
    assert "3 calls at once (NAVI_MODEL_SLOTS)" in told.stdout
