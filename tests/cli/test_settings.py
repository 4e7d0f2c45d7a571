"""Settings and options that cannot be right."""

import os
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from navi.adapters.embedded.servers import Addresses
from navi.adapters.llm.model_settings import ModelSettings, OllamaBackend, OpenAIBackend
from navi.bootstrap.secrets import secrets_of
from navi.cli import main
from navi.cli.menu import COMMANDS
from navi.cli.service.status import masked_nats, options_of_node, without_password
from navi.settings import read_settings


@pytest.mark.parametrize(
    ("name", "value", "cause"),
    [
        ("NAVI_PORT", "seventy", "'seventy' is not a whole number"),
        ("NAVI_PORT", "70000", "70000 is not between 0 and 65535"),
        ("NAVI_DATA_DIR", "a\nb", "has a line break, and the programs of Postgres take none"),
        ("NAVI_DATA_DIR", "a\n/", "has a line break, and the programs of Postgres take none"),
        (
            "NAVI_DATA_DIR",
            os.fsdecode(b"by\xffte"),
            "has bytes that are no UTF-8, and the addresses of servers take none",
        ),
        ("NAVI_NATS_PORT", "8000", "8000 is the port of HTTP: name another one"),
        ("NAVI_PROCESSES", "0", "0 is not between 1 and 256"),
        ("NAVI_PROCESSES", "-1", "-1 is not between 1 and 256"),
        ("NAVI_PROCESSES", "1000", "1000 is not between 1 and 256"),
        ("NAVI_PROCESSES", "two", "'two' is neither a whole number nor auto"),
        ("NAVI_LLM", "oracle", "'oracle' is none of auto, ollama, openai, demo"),
        ("CONTEXT_COMPRESSION_THRESHOLD", "2", "2 is not between 0.05 and 1"),
        ("NAVI_CONTEXT_WINDOW", "4k", "'4k' is not a whole number"),
        ("NAVI_MODEL_SLOTS", "0", "0 is not between 1 and 10000"),
        ("NAVI_WEB_ALLOW", "a.lan *.lan", "'*.lan' is neither a host, a host:port nor a network"),
        (
            "NAVI_ALLOWED_HOSTS",
            "localhost, https://navi.example",
            "'https://navi.example' is neither a host name nor an address, alone and without a port",
        ),
        (
            "NAVI_ALLOWED_HOSTS",
            "navi.example:8443",
            "'navi.example:8443' is neither a host name nor an address, alone and without a port",
        ),
        ("SEARXNG_URL", "searx", "is not a URL that begins with http or https://"),
        ("NAVI_FAILPOINTS", "nowhere=kill", "no failpoint is called 'nowhere'"),
    ],
    ids=[
        "not a number",
        "too large",
        "line break",
        "line break at the end",
        "no UTF-8",
        "HTTP's port",
        "no process",
        "less than none",
        "too many processes",
        "not a number of processes",
        "not a choice",
        "not a share",
        "not tokens",
        "no slot",
        "no host",
        "a URL for a name",
        "a name with a port",
        "no URL",
        "no such failpoint",
    ],
)
def test_a_bad_value_is_one_line_that_names_the_setting(name: str, value: str, cause: str) -> None:
    result = CliRunner().invoke(main, ["serve"], env={name: value})

    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"navi: {name}: {cause}\n")


def test_names_and_addresses_by_which_navi_may_be_called_are_taken_as_they_are_written() -> None:
    environment = {"NAVI_ALLOWED_HOSTS": "Navi.example, my_box.,::1,[2001:db8::1],192.0.2.1"}

    settings = read_settings(environment)

    assert settings.allowed_hosts == (
        *("navi.example", "my_box.", "::1", "[2001:db8::1]", "192.0.2.1"),
    )


def test_an_address_that_is_none_is_told_where_it_is_an_option_too() -> None:
    result = CliRunner().invoke(main, ["chat", "--url", "http://navi:80a", "hello"])

    assert (result.exit_code, result.stdout, result.stderr) == (
        2,
        "",
        "navi: NAVI_URL: names a host or a port that cannot be one\n",
    )


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--turns", "10001"),
        ("--turns", str(2**64)),
        ("--requests", str(10**9 + 1)),
        ("--sockets", str(10**6 + 1)),
        ("--tokens", str(10**12 + 1)),
        ("--tokens", str(2**64)),
        ("--tokens", "9" * 5000),
        ("--tokens", "0"),
        ("--tokens", "many"),
    ],
)
def test_a_limit_of_a_user_is_no_higher_than_the_settings_take_it(
    tmp_path: Path, option: str, value: str
) -> None:
    arguments = ["users", "--data-dir", str(tmp_path), "set", "ada", option, value]

    result = CliRunner().invoke(main, arguments, env={"DATABASE_URL": "postgresql://127.0.0.1:1/x"})

    assert (result.exit_code, result.stdout) == (2, "")
    assert option in result.stderr


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1"])
def test_an_address_of_another_machine_is_told_before_anything_is_started(
    tmp_path: Path, host: str
) -> None:
    arguments = ["serve", "--host", host, "--data-dir", str(tmp_path)]

    result = CliRunner().invoke(main, arguments, env={"NAVI_LLM": "demo"})

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("navi: NAVI_HOST: ")
    assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_taken_is_told_before_anything_is_started(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = ["serve", "--port", str(port), "--data-dir", str(tmp_path)]
        result = CliRunner().invoke(main, arguments, env={"NAVI_LLM": "demo"})

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"navi: port {port} of 127.0.0.1 is taken; another one is chosen with --port or NAVI_PORT\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("nats://s3cr3t@nats:4222", "nats://***@nats:4222"),
        ("nats://me:s3cr3t@nats:4222", "nats://me:***@nats:4222"),
        ("nats://s/3@cr@nats", "nats://***@nats"),
        ("nats://nats:4222", "nats://nats:4222"),
    ],
    ids=["token", "password", "raw signs", "nothing to mask"],
)
def test_an_address_of_nats_is_shown_without_what_lets_in(url: str, shown: str) -> None:
    assert masked_nats(url) == shown


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("nats://s3cr3t@127.0.0.1:4222", '{ servers: "127.0.0.1:4222", token: "s3cr3t" }'),
        ("nats://me:s%2F3@[::1]:4222", '{ servers: "[::1]:4222", user: "me", pass: "s/3" }'),
        ("nats://nats:4222", None),
        ("nats://***@nats:4222", None),
        ("nats://a@one:1,nats://a@two:2", None),
    ],
    ids=["token", "password", "nothing to tell apart", "not shown", "several"],
)
def test_what_lets_in_is_told_apart_for_the_client_of_node(url: str, options: str | None) -> None:
    assert options_of_node(url) == options


def test_a_bad_address_is_not_repeated_because_it_may_hold_a_password() -> None:
    dsn = "mysql://navi:geheim@localhost/navi"

    result = CliRunner().invoke(main, ["sessions"], env={"DATABASE_URL": dsn})

    assert (result.exit_code, "geheim" in result.output) == (2, False)
    assert result.stderr.startswith("navi: DATABASE_URL: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["events"],
        ["replay", "id", "--at", "-1"],
        ["replay", "id", "--buffer", "nothing"],
        ["sessions", "--limit", "0"],
        ["projections", "rebuild", "nothing"],
        ["publish"],
        ["publish", "--from", "x"],
        ["nothing"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_told_before_anything_is_opened(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    result = CliRunner().invoke(main, [command, "--help"])

    assert (result.exit_code, "Usage: " in result.stdout) == (0, True)


def test_the_menu_names_every_command_under_its_heading() -> None:
    result = CliRunner().invoke(main, ["--help"])

    headings = [
        line for line in result.stdout.splitlines() if line.endswith(":") and line[0] != " "
    ]
    assert headings == ["Options:", "Start:", "Read the log:", "Upkeep:", "Learn:"]


def test_the_grammar_of_the_demo_model_is_printed() -> None:
    result = CliRunner().invoke(main, ["demo-script"])

    assert (result.exit_code, "!tool NAME {JSON}" in result.stdout) == (0, True)


def test_the_failpoints_are_listed_with_their_places() -> None:
    result = CliRunner().invoke(main, ["doctor", "--failpoints"])

    lines = [line.split(maxsplit=1) for line in result.stdout.splitlines()]
    assert ["tool.running", "after tool_started is committed, before the tool runs"] in lines


def test_what_a_list_of_servers_holds_of_keys_is_masked() -> None:
    models = ModelSettings(
        ollama_backends=(
            OllamaBackend(url="http://a", headers={"Authorization": "Bearer first-of-all"}),
        ),
        openai_backends=(
            OpenAIBackend(url="http://me:second-of-all@b", api_key="third-of-all"),
            OpenAIBackend(url="http://c", headers={"X-Key": "fourth-of-all", "X-Empty": " "}),
        ),
    )
    environment = {"OPENAI_EMBEDDING_API_KEY": "fifth-of-all"}

    secrets = secrets_of(read_settings(environment), Addresses(), models)

    text = "first-of-all second-of-all third-of-all fourth-of-all fifth-of-all"
    assert "of-all" not in secrets.mask(text).text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:word@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:wo@rd@host/db", "postgresql://me:***@host/db"),
        (
            "postgresql://me@/db?host=/run&password=word",
            "postgresql://me@/db?host=/run&password=***",
        ),
        ("postgresql:///db?sslpassword=word&user=me", "postgresql:///db?sslpassword=***&user=me"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        (None, None),
    ],
)
def test_an_address_of_postgres_is_shown_without_its_password(
    url: str | None, shown: str | None
) -> None:
    assert without_password(url) == shown
