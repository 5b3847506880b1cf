"""Panels of a report: results that can be compared, by unit. Pure.

Owns the list of results in each program's report. Knows no picture. A panel has results of one
unit, so that bars can be compared.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.reports import report
from bench.reports.report import FELT, FigureReader
from bench.reports.statistics import RunSpread, spread

PanelFigures = Mapping[str, Any]

MOST = 16
"""Maximum number of bars in a panel. Only the first ones are shown."""
_UNITS = (
    (re.compile(r"\bMB/s$"), "MB/s"),
    (re.compile(r"CPU-s/GB$"), "CPU-s per GB"),
    (re.compile(r"\b(KiB each|kib)\b"), "KiB"),
    (re.compile(r"\bmib\b"), "MiB"),
    (re.compile(r"\bmillicores\b"), "millicores"),
    (re.compile(r"\bpercent\b"), "percent of a core"),
    (re.compile(r"\bcpu s per\b"), "CPU-s per thousands"),
    (re.compile(r"\bcpu s\b"), "CPU-s"),
    (re.compile(r"\bper s$"), "per second"),
    (re.compile(r"\bms\b"), "ms"),
    (re.compile(r"(\bs|\bseconds)$"), "s"),
    (re.compile(r"\brequests$"), "requests"),
)
_RATIO = re.compile(r" to |jain")


@dataclass
class BarPanel:
    """Bars of one unit."""

    title: str
    bars: dict[str, RunSpread] = field(default_factory=dict)
    is_lying: bool = True
    """Whether names are long, so that bars lie and names stand before them."""


def panels(results: Mapping[str, Any]) -> list[BarPanel]:
    """Return the panels of a report, with parallel variants next to each other."""
    runs = results.get("runs")
    if isinstance(runs, Mapping) and "direct" in runs:
        return list(_compared(runs))
    found: dict[str, BarPanel] = {}
    for title, figure in _named(results):
        unit = unit_of(title)
        panel = found.setdefault(unit, BarPanel(unit))
        if figure.count and len(panel.bars) < MOST:
            panel.bars[title] = figure
    return [panel for panel in found.values() if panel.bars]


def unit_of(title: str) -> str:
    """Return the unit of a figure by its name."""
    if _RATIO.search(title):
        return "ratio"
    return next((unit for pattern, unit in _UNITS if pattern.search(title)), "number")


def _compared(runs: Mapping[str, Sequence[PanelFigures]]) -> Iterator[BarPanel]:
    for title, read in FELT:
        bars = {way: spread(map(read, found)) for way, found in runs.items()}
        bars = {way: found for way, found in bars.items() if found.count and found.median}
        if len(bars) > 1:
            yield BarPanel(title, bars, is_lying=False)


def _named(results: Mapping[str, Any]) -> Iterator[tuple[str, RunSpread]]:
    if "runs" in results:
        yield from _of_runs(results["runs"])
    elif "logs" in results:
        from bench import agent  # noqa: PLC0415 - brings in what makes clusters

        yield from ((row.title, row.figure) for row in agent.rows(results))
    elif "alone" in results:
        yield from _of_provision(results)
    elif "turns" in results:
        from bench import agent_steps  # noqa: PLC0415 - as above

        for step, found in agent_steps.rows(results["turns"]):
            yield from ((f"{name}, {step}, ms", figure) for name, figure in found.items())
    elif "commands" in results:
        for each in results["commands"]:
            if not each["command"].endswith("--help"):  # their times are alike
                yield f"{each['command']}, ms", spread([float(each["own_ms"])])
    elif "away_s" in results:
        yield "API server away s", spread(list(results["away_s"].values()))
        for when in ("before", "after"):
            yield f"memory a tenant {when} mib", spread(results[f"memory_{when}_mib"])
    elif "sums" in results:
        for each in results["sums"]:
            title = f"{each['side']} {each['client']} {each['purpose']} requests"
            yield title, spread([float(each["requests"])])


def _of_runs(runs: Mapping[str, Sequence[PanelFigures]]) -> Iterator[tuple[str, RunSpread]]:
    for way, found in runs.items():
        known: dict[str, FigureReader] = dict(report.all_of({way: found}))
        for title, read in known.items():
            yield f"{way} {title}", spread(map(read, found))


def _of_provision(results: Mapping[str, Any]) -> Iterator[tuple[str, RunSpread]]:
    together = results.get("at_once") or {}
    groups = {
        "alone": results["alone"],
        "at once": list(together.get("each", {}).values()),
        "one after the other": list(results["create"].values()),
    }
    for name, found in groups.items():
        for title, read in report.all_of({name: found}):
            yield f"{name} {title}", spread(map(read, found))
    for title, read in report.all_of({"": [together]}):
        yield f"at once {title}", spread([read(together)])
    for pod, used in results["idle"].items():
        for what, number in used.items():
            yield f"idle {pod.split('-')[0]} {what.replace('_', ' ')}", spread([number])
    for key, used in results.items():
        if key.startswith("components_"):
            for component, number in used.items():
                yield f"{component}, {key[11:]} tenants, rss mib", spread([number])
