"""Verdict on one run of a tenant that is too large: ratios, and what the run does not keep.

Pure. A run has the results of one measurement, as `bench.large_tenant` prints them.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

MAX_RATIO = 1.2
"""Highest p99 of the neighbour beside the large tenant, in multiples of its p99 before."""
KIND = "NetworkPolicy"
"""Kind that the message to the tenant must name."""
REPORTS: Mapping[str | None, str] = {
    None: "large-tenant",
    "pages": "large-tenant-pages",
    "watch": "large-tenant-watch",
}
"""Name of the report by the value of `--endless`."""

LargeTenantRun = Mapping[str, Any]


def compute_ratios(run: LargeTenantRun) -> dict[str, float]:
    """Return the p99 of the neighbour in multiples of its p99 before, by the phase of the run.

    Before is the measurement in which a suspended tenant gets the same policies, because its API
    server uses the same two cores. Without that measurement, before is the idle one.
    """
    before = get_before(run)
    ratios = {phase: _divide(run[phase], before) for phase in ("large", "attempts")}
    if "suspended" in run:
        ratios["large_to_idle"] = _divide(run["large"], run["idle"])
    return ratios


def get_before(run: LargeTenantRun) -> Mapping[str, float]:
    """Return the measurement that the others are compared with."""
    found: Mapping[str, float] = run.get("suspended") or run["idle"]
    return found


def _divide(phase: Mapping[str, float], before: Mapping[str, float]) -> float:
    return round(phase["p99_ms"] / before["p99_ms"], 2)


def find_problems(run: LargeTenantRun) -> list[str]:
    """Return a sentence for each thing that a run does not keep."""
    return list(_iterate_problems(run))


def _iterate_problems(run: LargeTenantRun) -> Iterator[str]:
    limit = run["memory_limit_mib"]
    peak = run["memory_after"]["peak_mib"]
    if run["has_ended"]:
        yield "The syncer ended during the run. Read its log above."
    if peak > limit:
        yield f"The syncer used {peak} MiB, and its limit is {limit} MiB."
    if run["policies_refused"]:
        yield (
            f"The API server refused {run['policies_refused']} policies, so the tenant was smaller"
            " than asked. Use smaller policies or a larger store."
        )
    if not run["told"]:
        yield "The condition Synced of the large tenant did not report TooLarge."
    elif KIND not in run["told"]:
        yield f"The condition Synced does not name the kind {KIND}: {run['told']}"
    if run["recovered_seconds"] is None:
        yield "The large tenant was not synced again after its policies were deleted."
    for phase, named in (("large", "while the tenant grew"), ("attempts", "at later attempts")):
        ratio = run["ratios"][phase]
        if math.isnan(ratio) or ratio > MAX_RATIO:
            yield f"The neighbour's p99 {named} was {ratio} times before, above {MAX_RATIO}."
