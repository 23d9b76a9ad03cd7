"""Alerts, the dashboard and the configuration of Prometheus: their metrics are a server's, and promtool takes and tries them."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from lance_flight.catalog.backup.saving import note_backup
from lance_flight.catalog.storage.store import Store

from tests.deployment.operator_tools import DOCKER, run, tool
from tests.documents import rows_of
from tests.flight.certificates import authority
from tests.service.operated import operated

PROMETHEUS = DOCKER / "prometheus"
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())["groups"] for rule in group["rules"]
]
TRIED: list[dict[str, Any]] = yaml.safe_load((PROMETHEUS / "alerts_test.yml").read_text())["tests"]
DASHBOARD = json.loads((DOCKER / "grafana" / "dashboards" / "lance-flight.json").read_text())
SELECTOR = re.compile(r"\b((?:lance_flight|process)_\w+)(?:\{([^}]*)\})?")
LABEL = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"')
GROUPED = re.compile(r"\bby \(([\w, ]+)\)")
GIVEN_BY_PROMETHEUS = {"job", "instance"}
OUTCOMES = {"ok", "closed", *(row[0].strip("`") for row in rows_of("server/docs/errors.md")[2:])}
INSTALL = "apt-get install --no-install-recommends prometheus"


def panels() -> Iterator[dict[str, Any]]:
    yield from (panel for panel in DASHBOARD["panels"] if panel["type"] != "row")


def expressions() -> Iterator[tuple[str, str]]:
    """Every expression, and whose it is."""
    yield from ((rule["alert"], rule["expr"]) for rule in RULES)
    yield from ((panel["title"], target["expr"]) for panel in panels() for target in panel["targets"])
    yield from ((each["name"], each["expr"]) for each in DASHBOARD["annotations"]["list"])
    for variable in DASHBOARD["templating"]["list"]:
        yield variable["name"], variable["query"]["query"]


EXPRESSIONS = list(expressions())


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Mapping[str, set[str]]]:
    """What a server of a root that was backed up says after a query, and one with certificates: metric → label → its values."""
    place = tmp_path_factory.mktemp("monitored")
    root, certificate, key = (place / name for name in ("root", "certificate.pem", "key.pem"))
    root.mkdir()
    authority().signs_a_server().write(certificate, key)
    note_backup(Store(str(root)), "20260101T000000.000000Z-abcd")
    with operated(root) as running, operated(root, f"--tls-certificate={certificate}", f"--tls-key={key}") as encrypted:
        assert running.server.value("SELECT 1") == 1
        text = "".join(each.page("/metrics")[1] for each in (running, encrypted))
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", text, re.MULTILINE):
        found[name]
        for label, value in LABEL.findall(labels):
            found[name][label].add(value)
    return found


@pytest.mark.parametrize(("owner", "expression"), EXPRESSIONS, ids=[owner for owner, _ in EXPRESSIONS])
def test_what_is_asked_for_is_a_metric_of_a_server(
    scraped: Mapping[str, Mapping[str, set[str]]], owner: str, expression: str
) -> None:
    selected = SELECTOR.findall(expression)
    assert selected or re.search(r"\bup\{", expression)
    known = GIVEN_BY_PROMETHEUS.union(*(scraped[name] for name, _ in selected if name in scraped))
    for name, labels in selected:
        assert name in scraped
        for label, value in LABEL.findall(labels):
            assert label in GIVEN_BY_PROMETHEUS | scraped[name].keys()
            if label in {"kind", "state"}:
                assert value in scraped[name][label]
            if label == "outcome":
                assert set(value.split("|")) <= OUTCOMES
    for grouped in GROUPED.findall(expression):
        assert set(re.split(r",\s*", grouped)) <= known


def test_promtool_takes_rules_and_configuration() -> None:
    promtool = tool("promtool", INSTALL)
    run(promtool, "check", "rules", "--lint=all", "--lint-fatal", PROMETHEUS / "alerts.yml")
    run(promtool, "check", "config", PROMETHEUS / "prometheus.yml")


def test_the_alerts_are_raised_when_they_should_be() -> None:
    assert "SUCCESS" in run(tool("promtool", INSTALL), "test", "rules", PROMETHEUS / "alerts_test.yml")


def test_promtool_takes_what_the_panels_ask(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": target["expr"].replace("$__rate_interval", "1m")}
        for number, target in enumerate(target for panel in panels() for target in panel["targets"])
    ]
    (tmp_path / "panels.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    run(tool("promtool", INSTALL), "check", "rules", "--lint=none", tmp_path / "panels.yml")


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_every_alert_is_tried_documented_and_graded(rule: Mapping[str, Any]) -> None:
    name = rule["alert"]
    expected = [each["exp_alerts"] for test in TRIED for each in test["alert_rule_test"] if each["alertname"] == name]
    assert any(expected)
    assert not all(expected), "no test of a state without it"
    assert rule["labels"]["severity"] in {"info", "warning", "critical"}
    assert name in {row[0].strip("`") for row in rows_of("server/docs/deployment.md", "Alerts")[2:]}


def test_no_alert_is_documented_that_is_not_there() -> None:
    documented = [row[0].strip("`") for row in rows_of("server/docs/deployment.md", "Alerts")[2:]]
    assert documented == [rule["alert"] for rule in RULES]


def test_grafana_finds_the_dashboard_and_its_source() -> None:
    provisioning = DOCKER / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yaml").read_text())["datasources"]
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "lance-flight.yaml").read_text())["providers"]
    grafana = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]["grafana"]
    mounts = dict(volume.split(":")[:2] for volume in grafana["volumes"])
    assert mounts == {
        "./grafana/provisioning": "/etc/grafana/provisioning",
        "./grafana/dashboards": provider["options"]["path"],
    }
    assert source["url"] == "http://prometheus:9090"
    asked = [each["datasource"]["uid"] for panel in panels() for each in (panel, *panel["targets"])]
    assert set(asked) == {source["uid"]}


def test_no_panel_covers_another() -> None:
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for at in [panel["gridPos"]]
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert all(x < 24 for x, _ in cells)
    identifiers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(identifiers) == len(set(identifiers))
