"""The dashboard and the alert rules in ``examples/``: they parse, and ask for metrics that exist.

Expressions are read by Prometheus' own grammar of PromQL, from npm; promtool itself is in no registry
that the tests install from.
"""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml
from msgspec import Struct

from navi.adapters.metrics.names import METRICS
from tests.support.event_consumer import EXAMPLES, NODE
from tests.support.npm_packages import installed

PACKAGES = Path(__file__).parents[2] / "support" / "promql_packages"
SECONDS = 60.0
DURATION = re.compile(r"(\d+(ms|[smhdwy]))+")
NAMES = frozenset(
    name
    for metric in METRICS
    for name in (
        [f"{metric.name}{suffix}" for suffix in ("_bucket", "_sum", "_count")]
        if metric.buckets
        else [metric.name]
    )
)
OF_PROMETHEUS = frozenset({"up"})
# What Grafana puts in place before it asks.
VARIABLES = {"$__rate_interval": "5m", "$__range": "1h", "$instance": ".*"}


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    """An alert, with every field that Prometheus knows of one."""

    alert: str
    expr: str
    labels: dict[Literal["severity"], Literal["info", "warning", "critical"]]
    annotations: dict[Literal["summary", "description"], str]
    for_: str = msgspec.field(name="for", default="0s")
    keep_firing_for: str = "0s"


class Group(Struct, frozen=True, forbid_unknown_fields=True):
    """Rules that are looked at together."""

    name: str
    rules: list[Rule]
    interval: str = "1m"


class Rules(Struct, frozen=True, forbid_unknown_fields=True):
    """A rule file."""

    groups: list[Group]


class Read(Struct, frozen=True, rename="camel"):
    """What the grammar says of an expression."""

    broken_at: int | None
    metrics: list[str]


def read(expressions: Sequence[str]) -> Mapping[str, Read]:
    """What each expression is to the grammar of PromQL."""
    done = subprocess.run(
        [NODE, str(installed(PACKAGES) / "check.mjs")],
        input=json.dumps(expressions).encode(),
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(expressions, msgspec.json.decode(done.stdout, type=list[Read]), strict=True))


@cache
def rules() -> tuple[Rule, ...]:
    text = (EXAMPLES / "alerts.yaml").read_text()
    file = msgspec.convert(yaml.safe_load(text), Rules)
    return tuple(rule for group in file.groups for rule in group.rules)


@cache
def dashboard() -> Any:
    return json.loads((EXAMPLES / "grafana-dashboard.json").read_text())


def targets() -> Iterator[str]:
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            expression: str = target["expr"]
            for name, value in VARIABLES.items():
                expression = expression.replace(name, value)
            yield expression


def test_the_grammar_knows_what_is_wrong() -> None:
    found = read(["sum by (le (rate(x[5m])))", "rate(x[5 minutes])", "sum(rate(x[5m]))"])

    assert [one.broken_at is None for one in found.values()] == [False, False, True]
    assert [*found.values()][-1].metrics == ["x"]


def test_every_expression_parses_and_asks_for_metrics_that_exist() -> None:
    expressions = [*(rule.expr for rule in rules()), *targets()]

    found = read(expressions)

    assert not [text for text, one in found.items() if one.broken_at is not None]
    asked = {name for one in found.values() for name in one.metrics}
    assert asked <= NAMES | OF_PROMETHEUS
    known = {metric.name for metric in METRICS}
    shown = {name for text in targets() for name in found[text].metrics}
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown} == known


def test_an_alert_on_each_process_outlasts_the_scrapes_of_others() -> None:
    of_one = {"navi_sockets"}  # what each process says of itself; sums and rates stand on all

    for rule in rules():
        for name in of_one & set(read([rule.expr])[rule.expr].metrics):
            assert f"last_over_time({name}[" in rule.expr


def test_every_label_that_is_asked_for_exists() -> None:
    known = {label for metric in METRICS for label in metric.labels}
    known |= {"le", "instance", "job", "process"}

    for text in (*(rule.expr for rule in rules()), *targets()):
        grouped = re.findall(r"\bby \(([^)]*)\)", text)
        matched = re.findall(r"[{,](\w+)(?:=~|!~|!=|=)", text)
        assert {label.strip() for group in grouped for label in group.split(",")} <= known
        assert set(matched) <= known


def test_rules_are_what_prometheus_takes() -> None:
    assert len({rule.alert for rule in rules()}) == len(rules())
    for rule in rules():
        assert DURATION.fullmatch(rule.for_), rule.alert
        for text in rule.annotations.values():
            assert text.count("{{") == text.count("}}")


def test_panels_of_the_dashboard_have_room() -> None:
    panels = dashboard()["panels"]

    places = {
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    }
    assert len(places) == sum(panel["gridPos"]["w"] * panel["gridPos"]["h"] for panel in panels)
    assert max(x for x, _ in places) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)
