"""Users at the command line."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from navi.cli import main
from tests.support.people import PASSWORD


def users(directory: Path, settings: dict[str, str], *arguments: str) -> str:
    """What a command on users prints."""
    command = ["users", "--data-dir", str(directory), *arguments]
    result = CliRunner().invoke(main, command, input=f"{PASSWORD}\n", env=settings)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize(("auth", "role"), [("proxy", "admin"), ("accounts", "user")])
def test_a_user_is_shown_in_the_role_that_holds(
    tmp_path: Path, database: str, auth: str, role: str
) -> None:
    settings = {"DATABASE_URL": database, "NAVI_AUTH": auth, "NAVI_PROXY_ADMINS": "ada"}

    made = json.loads(users(tmp_path, settings, "add", "ada", "--json"))
    [listed] = json.loads(users(tmp_path, settings, "list", "--json"))["users"]
    [line] = users(tmp_path, settings, "list").splitlines()

    assert (made["role"], listed["role"], line.split()[1]) == (role, role, role)


def test_limits_that_are_not_named_stay_unless_the_settings_are_to_hold_again(
    tmp_path: Path, database: str
) -> None:
    settings = {"DATABASE_URL": database, "NAVI_AUTH": "accounts"}
    default = json.loads(users(tmp_path, settings, "add", "ada", "--json"))["limits"]

    def limits(*wanted: str) -> dict[str, int | None]:
        return json.loads(users(tmp_path, settings, "set", "ada", *wanted, "--json"))["limits"]

    assert limits("--turns", "1", "--tokens", "9") == {**default, "turns": 1, "tokens": 9}
    assert limits("--tokens", "none") == {**default, "turns": 1, "tokens": None}
    assert limits("--role", "admin") == {**default, "turns": 1, "tokens": None}
    assert limits("--default-limits", "--sockets", "3") == {**default, "sockets": 3}
    assert limits("--default-limits") == default
