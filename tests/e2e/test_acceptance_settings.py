"""Settings that cannot be right, seen from outside: one clear line on standard error, exit 2."""

from pathlib import Path

import pytest

from tests.support.navi_process import run_navi

BAD_SETTINGS = [
    (
        "NAVI_HOST",
        "not a host",
        "navi: NAVI_HOST: 'not a host' is neither a host name nor an address\n",
    ),
    (
        "NAVI_HOST",
        "http://here",
        "navi: NAVI_HOST: 'http://here' is neither a host name nor an address\n",
    ),
    ("NAVI_DATA_DIR", "/proc/navi", "navi: /proc/navi cannot be used: No such file or directory\n"),
    ("NAVI_DRAIN_SECONDS", "inf", "navi: NAVI_DRAIN_SECONDS: inf is not between 0 and 86400\n"),
    (
        "DATABASE_URL",
        "mysql://navi:geheim@here/navi",
        "navi: DATABASE_URL: is not a URL that begins with postgresql or postgres://\n",
    ),
]


@pytest.mark.parametrize(("name", "value", "line"), BAD_SETTINGS)
async def test_a_bad_setting_is_one_clear_line(
    tmp_path: Path, name: str, value: str, line: str
) -> None:
    ended = await run_navi("serve", data_dir=tmp_path / "data", settings={name: value})

    assert (ended.status, ended.stdout, ended.stderr) == (2, "", line)
