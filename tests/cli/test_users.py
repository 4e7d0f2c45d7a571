"""Users at the command line."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from navi.cli import main
from tests.support.people import PASSWORD


@pytest.mark.parametrize(("auth", "role"), [("proxy", "admin"), ("accounts", "user")])
def test_a_user_is_shown_in_the_role_that_holds(
    tmp_path: Path, database: str, auth: str, role: str
) -> None:
    settings = {"DATABASE_URL": database, "NAVI_AUTH": auth, "NAVI_PROXY_ADMINS": "ada"}

    def users(*arguments: str) -> str:
        command = ["users", "--data-dir", str(tmp_path), *arguments]
        result = CliRunner().invoke(main, command, input=f"{PASSWORD}\n", env=settings)
        assert result.exit_code == 0, result.output
        return result.stdout

    made = json.loads(users("add", "ada", "--json"))
    [listed] = json.loads(users("list", "--json"))["users"]
    [line] = users("list").splitlines()

    assert (made["role"], listed["role"], line.split()[1]) == (role, role, role)
