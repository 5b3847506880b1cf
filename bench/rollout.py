"""An upgrade of many tenants in waves, one of which does not come back at first.

Runs against a super cluster with the chart installed (`make up`). Creates tenants of 1.35 at once,
and changes their ClusterVersion to 1.36. A quota without pods in the root namespace of one tenant
keeps its new API server away. The rollout must stop there, the tenants that wait must be as before,
and the rollout must go on when the quota is deleted. Prints time and memory per tenant, and writes
JSON to `bench/results/`. Ends with 1 if the rollout did something else.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.programs import image_python, super_cluster
from bench.programs.super_cluster import MIB, SuperKubectl, create_at_once, root_of, tenants
from bench.reports import report
from bench.reports.statistics import spread

VERSION = "bench-rollout"
"""Name of the ClusterVersion of the measurement."""
OLD, NEW = "1.35", "1.36"
DEADLINE = 90
"""Seconds after which the rollout stops for a tenant that does not come back."""
_LONGEST = 1800.0
_QUIET = 30.0
_TOLD = 12.0
_PROBE = ("get", "--raw", "/readyz", "--request-timeout=2s")


@dataclass
class RolloutLog:
    """Observations of a rollout, by the seconds since it began."""

    changed: dict[str, float] = field(default_factory=dict)
    """When the API server of each tenant first was of the new minor."""
    away: dict[str, float] = field(default_factory=dict)
    """Longest time without an answer of each tenant's API server."""
    most_at_once: int = 0
    """Most tenants with a slot at the same time."""
    _silent_since: dict[str, float] = field(default_factory=dict)

    def add(self, now: float, versions: Mapping[str, str | None], slots: int) -> None:
        """Record one look: each tenant's minor, None if it does not answer, and used slots."""
        self.most_at_once = max(self.most_at_once, slots)
        for name, version in versions.items():
            if version is None:
                since = self._silent_since.setdefault(name, now)
                self.away[name] = max(self.away.get(name, 0.0), now - since)
                continue
            since = self._silent_since.pop(name, now)
            self.away[name] = max(self.away.get(name, 0.0), now - since)
            if version == NEW:
                self.changed.setdefault(name, now)


def find_faults(results: Mapping[str, Any]) -> list[str]:
    """Return what the rollout did that it must not, as sentences."""
    names, broken = set(results["tenants"]), results["broken"]
    found = []
    if results["most_at_once"] > results["max_unavailable"]:
        found.append(
            f"{results['most_at_once']} tenants changed at once, and"
            f" {results['max_unavailable']} may"
        )
    if results["stopped"] != "DeadlineExceeded":
        found.append(f"the rollout did not stop: {results['stopped']}")
    if broken in results["changed_at_stop"]:
        found.append(f"{broken} was changed, although its API server could not start")
    if results["changed_while_stopped"]:
        found.append(f"while it was stopped, these changed: {results['changed_while_stopped']}")
    if results["ended"] != "UpToDate":
        found.append(f"the rollout did not end: {results['ended']}")
    if missing := sorted(names - set(results["changed_s"])):
        found.append(f"these are still of {OLD}: {', '.join(missing)}")
    return found


def read_minor(cluster: SuperKubectl, kubeconfig: Path) -> str | None:
    """Return the minor of a tenant's API server. None if it does not answer."""
    try:
        cluster.kubectl(*_PROBE, kubeconfig=kubeconfig)
        said = json.loads(cluster.kubectl("get", "--raw", "/version", kubeconfig=kubeconfig))
    except SystemExit:
        return None
    return ".".join(said["gitVersion"].removeprefix("v").split(".")[:2])


def read_rollout(cluster: SuperKubectl) -> tuple[str, int]:
    """Return the reason of RolledOut, and the number of used slots."""
    status = json.loads(cluster.kubectl("get", "clusterversion", VERSION, "-o", "json"))["status"]
    reasons = [
        each["reason"] for each in status.get("conditions", []) if each["type"] == "RolledOut"
    ]
    return (reasons[0] if reasons else ""), len(status.get("rollout", {}).get("slots", []))


@contextmanager
def cluster_version(cluster: SuperKubectl, folder: Path, at_once: int) -> Iterator[None]:
    """Keep a ClusterVersion of the old minor."""
    rollout = {"maxUnavailable": at_once, "deadlineSeconds": DEADLINE}
    manifest = {
        "apiVersion": "tenancy.x-k8s.io/v1alpha1",
        "kind": "ClusterVersion",
        "metadata": {"name": VERSION},
        "spec": {"kubernetesVersion": OLD, "rollout": rollout},
    }
    file = folder / "version.json"
    file.write_text(json.dumps(manifest))
    cluster.kubectl("apply", "-f", str(file))
    try:
        yield
    finally:
        cluster.kubectl("delete", "clusterversion", VERSION, "--ignore-not-found")


def follow(
    cluster: SuperKubectl,
    kubeconfigs: Mapping[str, Path],
    log: RolloutLog,
    begun: float,
    is_over: Callable[[str, int], bool],
) -> str:
    """Look at all tenants again and again until the rollout is over. Returns its reason."""
    told = 0
    while True:
        reason, slots = read_rollout(cluster)
        now = time.perf_counter() - begun
        log.add(now, {name: read_minor(cluster, file) for name, file in kubeconfigs.items()}, slots)
        if len(log.changed) > told:
            told = len(log.changed)
            print(f"{now:7.0f} s  {told} of {len(kubeconfigs)} are of {NEW}", flush=True)
        if is_over(reason, slots) or now > _LONGEST:
            print(f"{now:7.0f} s  {reason}", flush=True)
            return reason


def is_stopped(reason: str, slots: int) -> bool:
    """Whether the rollout has stopped, and only the tenant that does not come back has a slot."""
    return reason == "DeadlineExceeded" and slots == 1


def is_ended(reason: str, _slots: int) -> bool:
    """Whether all tenants are changed and ready."""
    return reason == "UpToDate"


def tenant_memory(cluster: SuperKubectl, roots: Sequence[str]) -> list[float]:
    """Return the working set in MiB of each tenant's control plane."""
    pods = cluster.use()
    return [sum(pod.working_set for pod in pods if pod.namespace == root) / MIB for root in roots]


def upgrade(cluster: SuperKubectl, kubeconfigs: Mapping[str, Path], broken: str) -> dict[str, Any]:
    """Upgrade the tenants with one that does not come back, then repair it."""
    log, root = RolloutLog(), root_of(cluster, broken)
    cluster.kubectl("create", "quota", VERSION, "--hard=pods=0", "-n", root)
    spec = json.dumps({"spec": {"kubernetesVersion": NEW}})
    begun = time.perf_counter()
    cluster.kubectl("patch", "clusterversion", VERSION, "--type=merge", "-p", spec)
    stopped = follow(cluster, kubeconfigs, log, begun, is_stopped)
    changed = sorted(log.changed)
    print(f"stopped, with {len(changed)} of {len(kubeconfigs)} of {NEW}. Resting", flush=True)
    time.sleep(_QUIET)
    others = {name: file for name, file in kubeconfigs.items() if name not in {*changed, broken}}
    while_stopped = [name for name, file in others.items() if read_minor(cluster, file) != OLD]
    cluster.kubectl("delete", "quota", VERSION, "-n", root)
    repaired = time.perf_counter() - begun
    ended = follow(cluster, kubeconfigs, log, begun, is_ended)
    return {
        "broken": broken,
        "stopped": stopped,
        "changed_at_stop": changed,
        "changed_while_stopped": while_stopped,
        "repaired_s": repaired,
        "ended": ended,
        "all_s": time.perf_counter() - begun,
        "changed_s": log.changed,
        "away_s": log.away,
        "most_at_once": log.most_at_once,
    }


def measure(cluster: SuperKubectl, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the whole measurement and return its figures."""
    results: dict[str, Any] = {"noise": super_cluster.noise(), **image_python.machine()}
    names = [f"bench-wave-{number}" for number in range(arguments.tenants)]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with cluster_version(cluster, folder, arguments.at_once), tenants(cluster) as made:
            print(f"creating {len(names)} tenants of {OLD}", flush=True)
            made |= {name: {} for name in names}
            create_at_once(cluster, names, VERSION, folder)
            roots = [root_of(cluster, name) for name in names]
            time.sleep(_TOLD)
            before = tenant_memory(cluster, roots)
            kubeconfigs = {name: folder / f"{name}.kubeconfig" for name in names}
            results |= upgrade(cluster, kubeconfigs, names[len(names) // 2])
            time.sleep(_TOLD)
            after = tenant_memory(cluster, roots)
    return {
        **results,
        "tenants": names,
        "max_unavailable": arguments.at_once,
        "memory_before_mib": before,
        "memory_after_mib": after,
    }


def rows(results: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the title and the figure of each row of the tables."""
    others = [away for name, away in results["away_s"].items() if name != results["broken"]]
    changed = results["changed_at_stop"]
    pace = max((results["changed_s"][name] for name in changed), default=0.0) / (len(changed) or 1)
    yield "most that changed at once", f"{results['most_at_once']}"
    yield "changed when the rollout stopped for one that did not come back", f"{len(changed)}"
    yield "time of a tenant before the stop, s", f"{pace:.0f}"
    yield "repaired after s", f"{results['repaired_s']:.0f}"
    yield "all changed after s", f"{results['all_s']:.0f}"
    yield "API server of another tenant away, s", report.cell(spread(others))
    for when in ("before", "after"):
        memory = report.cell(spread(results[f"memory_{when}_mib"]))
        yield f"memory of a control plane {when}, MiB", memory


def table(results: Mapping[str, Any]) -> str:
    """Return the figures and the faults as lines for people."""
    lines = [
        f"machine: {results['cores']} cores, load {results['noise']['load_1min']:.2f}",
        f"{len(results['tenants'])} tenants from {OLD} to {NEW}",
        *(f"{title}: {figure}" for title, figure in rows(results)),
        *(f"fault: {fault}" for fault in find_faults(results)),
    ]
    return "\n".join(lines)


def main() -> int:
    """Measure, print, write. Returns 1 if the rollout did something that it must not."""
    parser = super_cluster.parser(__doc__)
    parser.add_argument("--at-once", type=int, default=2, help="tenants that may change together")
    parser.set_defaults(tenants=10)
    arguments = parser.parse_args()
    results = measure(SuperKubectl(arguments.super_kubeconfig, arguments.path), arguments)
    print("\n" + table(results))
    super_cluster.write("rollout", results)
    return 1 if find_faults(results) else 0


if __name__ == "__main__":
    sys.exit(main())
