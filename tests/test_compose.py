"""compose.yaml: what it passes on are settings, and nothing is published but where it should be."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from navi.settings import read_settings

ROOT = Path(__file__).parent.parent
CADDY = Path("examples/caddy/compose.yaml")
OTHERS = re.compile(r"OTEL_[A-Z_]+")  # settings of OpenTelemetry's own


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
