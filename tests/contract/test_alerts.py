"""Alerts, dashboard and runbooks ask only for what the components tell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from prometheus_client import Counter, Histogram
from prometheus_client.metrics import MetricWrapperBase

from telemetry import metrics
from tenancy import wellknown
from tests.support.alerts import METRIC, MONITORING, rules
from tools.testbed.artifacts import product
from vcmanager.runtime import etcd_stores
from vnagent.authz import metrics as agent_metrics
from vnagent.protocol.errors import RefusalReason
from vnagent.stream.stream_states import StreamEnd

RUNBOOKS = product.REPOSITORY / "docs" / "runbooks"
SCRAPED = {"instance", "job"}
"""Labels that the one that scrapes puts on."""
_PROCESS = {"process_cpu_seconds_total": set(), "process_resident_memory_bytes": set()}
_SELECTED = re.compile(rf"({METRIC.pattern})(?:\{{([^}}]*)\}})?")
_MATCHER = re.compile(r'(\w+)\s*(=~|!=|!~|=)\s*"([^"]*)"')
_GROUPED = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")
_VALUES = {
    ("leader_election_master_status", "name"): {wellknown.SYNCER, wellknown.MANAGER},
    ("controller_runtime_reconcile_total", "controller"): {wellknown.SYNCER, wellknown.MANAGER},
    ("controller_runtime_reconcile_errors_total", "controller"): {
        wellknown.SYNCER,
        wellknown.MANAGER,
    },
    ("vc_tenants", "condition"): {
        *("declared", "connected", "unreachable", "refusing", "store_full", "deletes_held"),
    },
    ("vc_stores", "condition"): {*etcd_stores.CONDITIONS},
    ("vc_snapshot_schedules", "condition"): {"scheduled", "overdue"},
    ("vc_targets", "condition"): {"declared", "not_connected", "unreachable", "losses_held"},
    ("vc_rollout_tenants", "state"): {"current", "waiting", "updating", "failed"},
    ("vc_agent_sessions_total", "result"): {each.value for each in (*RefusalReason, *StreamEnd)},
}
"""Closed sets that alerts select from."""


def told() -> dict[str, set[str]]:
    """Return every sample that the components can tell, with its labels."""
    found: dict[str, set[str]] = dict(_PROCESS)
    for family in (*vars(metrics).values(), *vars(agent_metrics).values()):
        if not isinstance(family, MetricWrapperBase):
            continue
        name, labels = family._name, set(family._labelnames)
        if isinstance(family, Histogram):
            found |= {f"{name}_bucket": labels | {"le"}, f"{name}_count": labels}
        else:
            found[f"{name}_total" if isinstance(family, Counter) else name] = labels
    return found


def panels() -> Iterator[str]:
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]


EXPRESSIONS = [*(rule["expr"] for rule in rules()), *panels()]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_expression_asks_for_what_is_reported(expression):
    known = told()
    labels: set[str] = set()
    names = []
    for name, inside in _SELECTED.findall(expression):
        names.append(name)
        assert name in known
        labels |= known[name]
        for label, _, _ in _MATCHER.findall(inside):
            assert label in known[name] | SCRAPED, name
    assert names
    for group in _GROUPED.findall(expression):
        wanted = {label.strip() for label in group.split(",")}
        assert wanted <= labels | SCRAPED


@pytest.mark.parametrize("expression", [rule["expr"] for rule in rules()])
def test_alerts_select_values_that_there_are(expression):
    for name, inside in _SELECTED.findall(expression):
        for label, operator, value in _MATCHER.findall(inside):
            closed = _VALUES[name, label]
            if operator == "=":
                assert value in closed
            else:
                branches = re.fullmatch(r"(\w*)\(?([^()]*)\)?", value)
                assert branches
                for branch in branches[2].split("|") if "(" in value else value.split("|"):
                    whole = branches[1] + branch if "(" in value else branch
                    assert whole in closed


def test_each_alert_has_words_and_a_page():
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert {"summary", "description", "runbook_url"} <= rule["annotations"].keys()
        assert rule["annotations"]["runbook_url"] == f"docs/runbooks/{rule['alert']}.md"
    pages = {page.stem: page.read_text() for page in RUNBOOKS.glob("*.md")}
    index = pages.pop("README")
    assert sorted(pages) == sorted(names)
    for rule in rules():
        link = f"[{rule['alert']}]({rule['alert']}.md)"
        assert f"| {link} | {rule['labels']['severity']} |" in index
    for name, text in pages.items():
        assert text.startswith(f"# {name}\n")
        for part in (
            "**Meaning.**",
            "**Impact.**",
            "## Diagnosis",
            "## Mitigation",
        ):
            assert part in text, name
