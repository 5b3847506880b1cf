"""Alerts of the chart that fire for the metrics of a process.

The rules are those that the chart ships, and a real Prometheus engine evaluates them. The last
scrape is extended for 90 min: gauges stand still, and counters grow each minute by as much as
between the last two scrapes.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import yaml
from prometheus_client import REGISTRY, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kubeio import Object
from tools.testbed.artifacts import binaries, product

MONITORING = product.REPOSITORY / "charts" / "virtual-cluster" / "files" / "monitoring"
MINUTES = 90
METRIC = re.compile(
    r"\b(?:vc|workqueue|controller_runtime|rest_client|leader_election|process)_\w+"
)
"""A name of a metric of ours in an expression."""
_GROWING = ("counter", "histogram")

Series = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class FiringAlert:
    """An alert that fires at the end."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


@dataclass(frozen=True)
class AlertScrape:
    """Samples of one moment that some rule uses."""

    values: Mapping[Series, float]
    growing: frozenset[Series]


@cache
def rules() -> Sequence[Object]:
    """Return the alerts of the chart."""
    (group,) = yaml.safe_load((MONITORING / "rules.yaml").read_text())["groups"]
    found: Sequence[Object] = group["rules"]
    return found


def scraped(text: str | None = None, *, instance: str = "one") -> AlertScrape:
    """Read an exposition. Without one, read this process's own."""
    asked = {name for rule in rules() for name in METRIC.findall(rule["expr"])}
    now = time.time()
    values: dict[Series, float] = {}
    growing: set[Series] = set()
    told = generate_latest(REGISTRY).decode() if text is None else text
    for family in text_string_to_metric_families(told):
        for sample in family.samples:
            if sample.name not in asked:
                continue
            series = (sample.name, tuple({**sample.labels, "instance": instance}.items()))
            # The engine's time begins at zero, and what is looked at is its last minute.
            is_moment = sample.name.endswith("_timestamp_seconds")
            values[series] = sample.value - is_moment * (now - MINUTES * 60)
            if family.type in _GROWING:
                growing.add(series)
    return AlertScrape(values, frozenset(growing))


def firing(*scrapes: AlertScrape) -> dict[str, list[FiringAlert]]:
    """Return the alerts that fire, by name, when things go on as in these scrapes."""
    every = {series for scrape in scrapes for series in scrape.values}
    lines = [_line(series, scrapes) for series in sorted(every)]
    done = subprocess.run(
        [str(binaries.path("alerts")), str(MONITORING / "rules.yaml"), str(MINUTES)],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[FiringAlert]] = {}
    for each in json.loads(done.stdout):
        alert = FiringAlert(each["alert"], each["labels"], each["annotations"])
        found.setdefault(alert.name, []).append(alert)
    return found


def _line(series: Series, scrapes: Sequence[AlertScrape]) -> str:
    name, labels = series
    inside = ",".join(f"{key}={json.dumps(value)}" for key, value in labels)
    seen = [scrape.values.get(series) for scrape in scrapes]
    first = ["_" if value is None else repr(value) for value in seen[:-1]]
    last, before = seen[-1], seen[-2] if len(seen) > 1 else None
    if last is None:
        return " ".join([f"{name}{{{inside}}}", *first, "_"])
    is_growing = any(series in scrape.growing for scrape in scrapes)
    step = last - (before or 0.0) if is_growing and len(seen) > 1 else 0.0
    rest = f"{last!r}+{max(step, 0.0)!r}x{MINUTES}"
    return " ".join([f"{name}{{{inside}}}", *first, rest])
