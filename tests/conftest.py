"""Fixtures for all tests: real servers, and no blocking call in the event loop."""

import asyncio
import gc
import logging
import os
import signal
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import structlog
from blockbuster import blockbuster_ctx

from tests.support.browser import CHROMIUM, NO_CHROMIUM
from tests.support.llama_process import HAS_WHEEL, NO_WHEEL, small_model_file
from tests.support.servers import NatsServer, PostgresServer, running_servers
from tests.support.temporary import keep_in_memory

keep_in_memory()

hypothesis.settings.register_profile("default", deadline=None)
hypothesis.settings.register_profile("ci", max_examples=200, derandomize=True, deadline=None)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") == "true" else "default")  # noqa: TID251  # tests have no cli.py

# Nothing that is imported or collected is let go: looking for what could be costs seconds.
gc.disable()

# A shell that runs the tests in the background lets them ignore SIGINT, and what they start as well.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What a library does once a connection, a process or an import, and does not offer to do elsewhere.
MAY_BLOCK = {
    "os.stat": [
        ("asyncpg/connect_utils.py", {"_read_password_file", "_parse_connect_dsn_and_args"}),
        ("<frozen importlib._bootstrap_external>", {"_path_stat"}),
    ],
    "os.read": [("subprocess.py", {"_execute_child"})],
}


# The longest first: the short ones fill what is left at the end, so that no processor waits for one module.
LONGEST_FIRST = (
    "tests/e2e/test_kill_matrix",
    "tests/e2e/",
    "tests/browser/",
    "tests/reruns",
    "tests/released",
    "tests/http",
    "tests/adapters",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest modules first, and mark those that break what navi runs on."""

    def place(item: pytest.Item) -> int:
        starts = (item.nodeid.startswith(start) for start in LONGEST_FIRST)
        return next((n for n, found in enumerate(starts) if found), len(LONGEST_FIRST))

    items.sort(key=place)
    for item in items:
        if item.nodeid.startswith("tests/e2e/outages/"):
            item.add_marker(pytest.mark.outage)


def pytest_collection_finish() -> None:
    """From here on objects come and go; those that are here stay, and are not looked at again."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def logs_as_before() -> Generator[None, None, None]:
    """A command that runs in this process sets its logs up for all of it, and for good: here for one test."""
    before, configure = structlog.get_config(), structlog.configure
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level

    def configure_uncached(**settings: Any) -> None:
        settings["cache_logger_on_first_use"] = False
        configure(**settings)

    # Not the test's own `monkeypatch`, which other fixtures end after.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(structlog, "configure", configure_uncached)
        yield
    configure(**before)
    root.handlers[:] = handlers
    root.setLevel(level)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what could not be run on this machine."""
    if CHROMIUM is None:
        terminalreporter.write_line(NO_CHROMIUM)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Processes for the whole suite, of which two a processor keep it busy; none for a part of it.

    A part is done before they had started. `-n 2` on the command line takes precedence.
    """
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not config.option.keyword
    if not whole or "NAVI_TEST_NATS_URL" in os.environ:  # noqa: TID251  # tests have no cli.py; its streams would be everybody's
        return 0
    return 2 * (os.cpu_count() or 1)


@pytest.fixture(autouse=True, scope="session")
def no_blocking() -> Generator[None, None, None]:
    """Fail the test in which navi blocks its event loop, also in what several tests share."""
    with blockbuster_ctx("navi") as blocker:
        for call, places in MAY_BLOCK.items():
            for file, functions in places:
                blocker.functions[call].can_block_in(file, functions)
        yield


@pytest.fixture(scope="session")
def postgres_server(
    tmp_path_factory: pytest.TempPathFactory,
) -> Generator[PostgresServer, None, None]:
    """A Postgres with pgvector: `NAVI_TEST_DATABASE_URL`, or one that the session starts."""
    given = os.environ.get("NAVI_TEST_DATABASE_URL")  # noqa: TID251  # tests have no cli.py
    if given:
        server = PostgresServer(given)
        yield server
        asyncio.run(server.close())
        return
    directory = tmp_path_factory.mktemp("servers-postgres")
    with running_servers(directory, postgres=True, nats=False) as servers:
        assert servers.addresses.database_url is not None
        yield PostgresServer(servers.addresses.database_url)


@pytest.fixture
async def empty_database(postgres_server: PostgresServer) -> AsyncGenerator[str, None]:
    """The DSN of a database that only this test knows; nothing is in it."""
    dsn = await postgres_server.create_database()
    yield dsn
    await postgres_server.drop_database(dsn)


@pytest.fixture
async def database(postgres_server: PostgresServer) -> AsyncGenerator[str, None]:
    """The DSN of a database that only this test knows, with navi's tables."""
    dsn = await postgres_server.create_migrated()
    yield dsn
    await postgres_server.drop_database(dsn)


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Generator[NatsServer, None, None]:
    """A NATS with JetStream: `NAVI_TEST_NATS_URL`, or one that the session starts."""
    given = os.environ.get("NAVI_TEST_NATS_URL")  # noqa: TID251  # tests have no cli.py
    if given:
        yield NatsServer(given)
        return
    directory = tmp_path_factory.mktemp("servers-nats")
    with running_servers(directory, postgres=False, nats=True) as servers:
        assert servers.addresses.nats_url is not None
        yield NatsServer(servers.addresses.nats_url)


@pytest.fixture
async def nats_url(nats_server: NatsServer) -> AsyncGenerator[str, None]:
    """The address of a NATS without any stream."""
    await nats_server.clear()
    yield nats_server.url
    await nats_server.clear()


@pytest.fixture(scope="session")
def small_model() -> Path:
    """The file of a model for `running_llama`."""
    if not HAS_WHEEL:
        pytest.skip(NO_WHEEL)
    return small_model_file()
