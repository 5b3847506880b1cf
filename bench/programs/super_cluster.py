"""Super cluster accessed through kubectl, and tenants created in it for a measurement.

Owns the steps that several programs of this folder share. Knows no result. Hazard: `tenants` must
delete its tenants also when a measurement ends early. Otherwise a failed run leaves tenants that
cost resources.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MIB = 1024 * 1024
RESULTS = Path(os.environ.get("BENCH_RESULTS") or ROOT / "bench" / "results")
"""Folder of the reports. A trial uses another folder, because the repository has reports of quiet
machines."""


@dataclass(frozen=True, kw_only=True)
class PodMemory:
    """The use of one pod as the kubelet reports it."""

    namespace: str
    name: str
    cpu_ns: int
    working_set: int
    rss: int


class SuperKubectl:
    """A super cluster accessed through kubectl."""

    def __init__(self, kubeconfig: Path, path: str) -> None:
        self._env = {**os.environ, "KUBECONFIG": str(kubeconfig), "PATH": path}

    def kubectl(self, *words: str, kubeconfig: Path | None = None) -> str:
        env = {**self._env, "KUBECONFIG": str(kubeconfig)} if kubeconfig else self._env
        done = subprocess.run(
            ["kubectl", *words], env=env, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"kubectl {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def use(self) -> list[PodMemory]:
        """Read each pod's use from every kubelet's summary."""
        found: list[PodMemory] = []
        for node in self.kubectl("get", "nodes", "-o", "name").split():
            summary = json.loads(
                self.kubectl(
                    "get", "--raw", f"/api/v1/{node.replace('node/', 'nodes/')}/proxy/stats/summary"
                )
            )
            found += [_pod_use(pod) for pod in summary["pods"]]
        return found


def _pod_use(pod: dict[str, Any]) -> PodMemory:
    containers = pod.get("containers", [])
    return PodMemory(
        namespace=pod["podRef"]["namespace"],
        name=pod["podRef"]["name"],
        cpu_ns=sum(c.get("cpu", {}).get("usageCoreNanoSeconds", 0) for c in containers),
        working_set=sum(c.get("memory", {}).get("workingSetBytes", 0) for c in containers),
        rss=sum(c.get("memory", {}).get("rssBytes", 0) for c in containers),
    )


def noise() -> dict[str, float]:
    """Measure one fixed piece of work several times, as a sign of how steady the machine is now."""
    seconds = []
    for _ in range(7):
        begun = time.perf_counter()
        sum(range(3_000_000))
        seconds.append(time.perf_counter() - begun)
    middle = statistics.median(seconds)
    return {
        "median_ms": 1e3 * middle,
        "spread": (max(seconds) - min(seconds)) / middle,
        "load_1min": os.getloadavg()[0],
    }


@contextmanager
def tenants(cluster: SuperKubectl) -> Iterator[dict[str, dict[str, float]]]:
    """Keep the tenants of `create`, and delete them at the end."""
    made: dict[str, dict[str, float]] = {}
    try:
        yield made
    finally:
        for name in made:
            cluster.kubectl("vc", "delete", name, "--yes")


def create(
    cluster: SuperKubectl, name: str, cluster_version: str, folder: Path
) -> dict[str, float]:
    """Create a tenant. Returns seconds to the command's end and to the first answered request."""
    kubeconfig = folder / f"{name}.kubeconfig"
    begun = time.perf_counter()
    cluster.kubectl(
        "vc", "create", name, "--cluster-version", cluster_version, "-o", str(kubeconfig)
    )
    created = time.perf_counter() - begun
    cluster.kubectl("get", "namespaces", kubeconfig=kubeconfig)
    return {"create_s": created, "first_request_s": time.perf_counter() - begun}


def create_at_once(
    cluster: SuperKubectl, names: Sequence[str], cluster_version: str, folder: Path
) -> dict[str, dict[str, float]]:
    """Create tenants in parallel. Returns the seconds of each, as `create` does."""
    with ThreadPoolExecutor(max_workers=len(names)) as pool:
        each = [pool.submit(create, cluster, name, cluster_version, folder) for name in names]
        return {name: one.result() for name, one in zip(names, each, strict=True)}


def root_of(cluster: SuperKubectl, name: str) -> str:
    """Return a tenant's root namespace."""
    return cluster.kubectl(
        "get", "virtualcluster", name, "-o", "jsonpath={.status.clusterNamespace}"
    )


def parser(purpose: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options of every program here."""
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    found = argparse.ArgumentParser(description=purpose)
    found.add_argument(
        "--super-kubeconfig", type=Path, default=ROOT / ".testbed" / "super.kubeconfig"
    )
    found.add_argument("--cluster-version", default="v1.36")
    found.add_argument("--tenants", type=int, default=5)
    found.add_argument("--path", default=beside, help="PATH with kubectl, kubectl-vc")
    return found


def write(name: str, results: dict[str, Any]) -> None:
    """Write the results of the program `name` to the folder of results."""
    into = RESULTS / f"{name}.json"
    into.parent.mkdir(parents=True, exist_ok=True)
    into.write_text(json.dumps(results, indent=2) + "\n")
