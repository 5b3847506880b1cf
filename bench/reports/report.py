"""Tables of results, for people.

Owns the layout and the choice of results. The JSON has all of them. Shows medians of the runs, and
of the ratios of neighbouring runs, with their spread.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bench.reports.statistics import RunSpread, ratios, spread

ReportFigures = Mapping[str, Any]
FigureReader = Callable[[ReportFigures], float]

_APART = (
    "inside",
    "calls",
    "events",
    "counters_per_life",
    "requests",
    "each",
)  # shown in their own way, or only in the JSON
_QUANTILES = ("count", "p90", "worst")  # p50 and p99 are enough for a table


def at(*path: str) -> FigureReader:
    """Return a function that reads one result, NaN for a run without it."""

    def read(figures: ReportFigures) -> float:
        found: Any = figures
        for part in path:
            found = found.get(part) if isinstance(found, Mapping) else None
        return float(found) if isinstance(found, int | float) else math.nan

    return read


FELT: tuple[tuple[str, FigureReader], ...] = (
    ("create to all Ready s", at("create_s")),
    ("pods/s", at("pods_per_s")),
    ("Ready p50 ms", at("ready_ms", "p50")),
    ("Ready p99 ms", at("ready_ms", "p99")),
    ("delete all s", at("delete_s")),
    ("gone p99 ms", at("gone_ms", "p99")),
    ("down create p50 ms", at("down_create_ms", "p50")),
    ("down create p99 ms", at("down_create_ms", "p99")),
    ("down delete p99 ms", at("down_delete_ms", "p99")),
    ("up bound p99 ms", at("up_bound_ms", "p99")),
    ("up Ready p50 ms", at("up_ready_ms", "p50")),
    ("up Ready p99 ms", at("up_ready_ms", "p99")),
    ("up gone p99 ms", at("up_gone_ms", "p99")),
    ("syncer CPU-s per 1000", at("cpu_s_per_1000", "syncer")),
    ("syncer RSS MiB", at("memory", "rss_mib")),
)
_MORE: tuple[tuple[str, FigureReader], ...] = (
    ("super CPU-s per 1000", at("cpu_s_per_1000", "super")),
    ("tenants CPU-s per 1000", at("cpu_s_per_1000", "tenant")),
    ("scheduler CPU-s per 1000", at("cpu_s_per_1000", "kube-scheduler")),
    ("kwok CPU-s per 1000", at("cpu_s_per_1000", "kwok")),
    ("load CPU-s per 1000", at("cpu_s_per_1000", "load")),
    ("observer CPU-s per 1000", at("cpu_s_per_1000", "observer")),
    ("other programs' cores", at("foreign_cores")),
)
_COMPARED = (
    ("pods/s", at("pods_per_s")),
    ("Ready p50", at("ready_ms", "p50")),
    ("Ready p99", at("ready_ms", "p99")),
    ("delete all", at("delete_s")),
)


def line(way: str, figures: ReportFigures) -> str:
    """Return one run in a line."""
    cpu = figures["cpu_s_per_1000"]["syncer"]
    return (
        f"{way:8}{figures['create_s']:7.1f} s{figures['pods_per_s']:7.0f} pods/s"
        f"  Ready {figures['ready_ms']['p50']:6.0f} / {figures['ready_ms']['p99']:6.0f} ms"
        f"  deleted {figures['delete_s']:6.1f} s  syncer {cpu:5.2f} CPU-s"
        f"  others {figures['foreign_cores']:.2f} cores"
    )


def table(results: Mapping[str, Any]) -> str:
    """Return the results of all variants next to each other."""
    runs: Mapping[str, Sequence[ReportFigures]] = results["runs"]
    rows = [*FELT, *_MORE] if "direct" in runs else list(all_of(runs))
    lines = [*_head(results), f"{'median (lowest to highest)':34}" + _columns(list(runs))]
    for title, read in rows:
        cells = [cell(spread(map(read, runs[way]))) for way in runs]
        if any(cells):
            lines.append(f"{title:34}" + _columns(cells))
    lines += _ratios(runs)
    for way, found in runs.items():
        lines += _calls(way, found[-1]) + _inside(found[-1])
    return "\n".join(lines)


def compared(runs: Sequence[ReportFigures], to: Sequence[ReportFigures]) -> dict[str, RunSpread]:
    """Return the ratios of latencies that users notice, pair by pair."""
    of = ratios_of(runs, to)
    return {title: of(read) for title, read in _COMPARED}


def ratios_of(
    runs: Sequence[ReportFigures], to: Sequence[ReportFigures]
) -> Callable[[FigureReader], RunSpread]:
    """Return a function for the ratio of a result, pair by pair."""
    return lambda read: spread(ratios([read(each) for each in runs], [read(each) for each in to]))


def added(runs: Sequence[ReportFigures], to: Sequence[ReportFigures]) -> dict[str, RunSpread]:
    """Return the added milliseconds until a pod is Ready, pair by pair."""
    found: dict[str, RunSpread] = {}
    for part in ("p50", "p99"):
        read = at("ready_ms", part)
        pairs = zip(runs, to, strict=True)
        found[f"Ready {part} ms"] = spread(read(one) - read(other) for one, other in pairs)
    return found


def bases(way: str) -> tuple[str, ...]:
    """Return the variants to compare with. A repeated variant is compared only with itself."""
    word, _, again = way.partition(" ")
    if again:
        return (word,)
    return tuple(base for base in ("direct", "replay") if way not in (base, "direct"))


def _head(results: Mapping[str, Any]) -> list[str]:
    asked, noise = results["asked"], results["noise"]
    return [
        f"{asked['profile']}: {asked['pods']} {asked['shape']} pods, {asked['tenants']} tenants",
        (
            f"machine: {results['cores']} cores, load before {noise['load_1min']:.2f}, a fixed"
            f" loop took {noise['median_ms']:.0f} ms, spread {noise['spread']:.0%}"
        ),
        f"ours with {results['python']}",
        "",
    ]


def _ratios(runs: Mapping[str, Sequence[ReportFigures]]) -> list[str]:
    lines: list[str] = []
    for way in runs:
        for base in bases(way):
            if base in runs:
                found = compared(runs[way], runs[base])
                lines += [f"  {way} / {base}: {key:22}{cell(each)}" for key, each in found.items()]
        if way == "syncer" and "direct" in runs:
            found = added(runs[way], runs["direct"])
            lines += [f"  {way} - direct: {key:22}{cell(each)}" for key, each in found.items()]
    return ["", "runs of one pair compared:", *lines] if lines else []


def _calls(way: str, figures: ReportFigures) -> list[str]:
    found = figures.get("calls")
    if not found:
        return []
    lines = [
        "",
        (
            f"{way}: requests{found.get('per', ' per life')}: {found['writes']:.2f} writes,"
            f" {found['reads']:.2f} reads"
        ),
    ]
    lines += [f"  {key:48}{number:8.3f}" for key, number in found["each"].items()]
    if found["writes_to_pods"]:
        lines.append(f"{way}: everybody's writes to pods per life:")
    return lines + [f"  {key:48}{number:8.3f}" for key, number in found["writes_to_pods"].items()]


def _inside(figures: ReportFigures) -> list[str]:
    found = figures.get("inside")
    if not found:
        return []
    late, own, samples = found["late_ms"], found["own_late_ms"], max(found["samples"], 1)
    share = 100 * found["garbage_s"] / max(found["cpu_s"], 1e-9)
    lines = [
        "",
        f"loop late ms: {_tail(late)}",
        f"  by our own work: {_tail(own)}",
        *_engine(found.get("engine_ms")),
        f"garbage: {share:.1f} % of processor time, longest {found['garbage_longest_ms']:.1f} ms",
    ]
    for milliseconds, stacks in found["held"]:
        lines.append(f"  held up for {milliseconds:.1f} ms:")
        lines += [f"    {number:3} x {stack}" for stack, number in Counter(stacks).most_common(4)]
    lines += ["", "runs of keys:", *(f"{count:8}  {name}" for name, count in found.get("runs", ()))]
    for key in ("files", "own", "total"):
        lines += ["", f"share of processor time, {key}:"]
        lines += [f"  {100 * count / samples:5.1f} %  {name}" for name, count in found[key][:40]]
    return lines


def _tail(found: ReportFigures) -> str:
    rare = f", p99.9 {found['p999']:.1f}" if "p999" in found else ""
    return f"p99 {found['p99']:.1f}{rare}, worst {found['worst']:.1f}"


def _engine(found: ReportFigures | None) -> list[str]:
    """Return how long pods' events were in the syncer before the write that they caused."""
    if not found or not found["count"]:
        return []
    return [f"engine ms, from news to the first write: p50 {found['p50']:.2f}, {_tail(found)}"]


def all_of(runs: Mapping[str, Sequence[ReportFigures]]) -> Iterator[tuple[str, FigureReader]]:
    """Yield a row for each result that any run has."""
    known: dict[tuple[str, ...], None] = {}
    for found in runs.values():
        for figures in found:
            known |= dict.fromkeys(_paths(figures))
    for path in known:
        yield " ".join(path).replace("_", " "), at(*path)


def _paths(figures: ReportFigures, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in figures.items():
        if key in _APART:
            continue
        if isinstance(value, Mapping):
            yield from _paths(value, (*before, key))
        elif isinstance(value, int | float) and key not in _QUANTILES:
            yield (*before, key)


def _columns(cells: Sequence[str]) -> str:
    return "".join(f"{cell:>26}" for cell in cells)


def cell(found: RunSpread) -> str:
    """Return a result with its lowest and highest run. Empty without any."""
    if not found.count:
        return ""
    size = abs(found.median)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2
    if found.count == 1:
        return f"{found.median:.{digits}f}"
    return f"{found.median:.{digits}f} ({found.low:.{digits}f} to {found.high:.{digits}f})"
