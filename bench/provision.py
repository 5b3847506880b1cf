"""Provisioning time, idle cost of a tenant, memory of our components.

Runs against a super cluster with the chart installed (`make up`), images present. Creates tenants
`bench-0` to `bench-4` in namespace default and deletes them. Prints a table, writes JSON to
`bench/results/provision.json`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
COMPONENTS = ("vc-manager", "vc-syncer", "vn-agent")
MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class PodUse:
    """What the kubelet says one pod uses."""

    namespace: str
    name: str
    cpu_ns: int
    working_set: int
    rss: int


class Super:
    """A super cluster seen through kubectl."""

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

    def use(self) -> list[PodUse]:
        """Read each pod's use from every kubelet's summary."""
        found: list[PodUse] = []
        for node in self.kubectl("get", "nodes", "-o", "name").split():
            summary = json.loads(
                self.kubectl(
                    "get", "--raw", f"/api/v1/{node.replace('node/', 'nodes/')}/proxy/stats/summary"
                )
            )
            found += [_pod_use(pod) for pod in summary["pods"]]
        return found


def _pod_use(pod: dict[str, Any]) -> PodUse:
    containers = pod.get("containers", [])
    return PodUse(
        namespace=pod["podRef"]["namespace"],
        name=pod["podRef"]["name"],
        cpu_ns=sum(c.get("cpu", {}).get("usageCoreNanoSeconds", 0) for c in containers),
        working_set=sum(c.get("memory", {}).get("workingSetBytes", 0) for c in containers),
        rss=sum(c.get("memory", {}).get("rssBytes", 0) for c in containers),
    )


def noise() -> dict[str, float]:
    """Time one fixed piece of work several times: how steady the machine is right now."""
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
def tenants(cluster: Super) -> Iterator[dict[str, dict[str, float]]]:
    """Hold the tenants that `create` made, and delete them at the end."""
    made: dict[str, dict[str, float]] = {}
    try:
        yield made
    finally:
        for name in made:
            cluster.kubectl("vc", "delete", name)


def create(cluster: Super, name: str, cluster_version: str, folder: Path) -> dict[str, float]:
    """Create a tenant; return seconds to the command's end and to the first answered request."""
    kubeconfig = folder / f"{name}.kubeconfig"
    begun = time.perf_counter()
    cluster.kubectl(
        "vc", "create", name, "--cluster-version", cluster_version, "-o", str(kubeconfig)
    )
    created = time.perf_counter() - begun
    cluster.kubectl("get", "namespaces", kubeconfig=kubeconfig)
    return {"create_s": created, "first_request_s": time.perf_counter() - begun}


def root_of(cluster: Super, name: str) -> str:
    """Return a tenant's root namespace."""
    return cluster.kubectl(
        "get", "virtualcluster", name, "-o", "jsonpath={.status.clusterNamespace}"
    )


def idle(cluster: Super, root: str, seconds: float) -> dict[str, dict[str, float]]:
    """Return millicores and MiB of each pod of a tenant's control plane over a quiet time."""
    before = {pod.name: pod for pod in cluster.use() if pod.namespace == root}
    begun = time.perf_counter()
    time.sleep(seconds)
    after = {pod.name: pod for pod in cluster.use() if pod.namespace == root}
    took = time.perf_counter() - begun
    return {
        name: {
            "millicores": (pod.cpu_ns - before[name].cpu_ns) / 1e6 / took,
            "working_set_mib": pod.working_set / MIB,
            "rss_mib": pod.rss / MIB,
        }
        for name, pod in after.items()
        if name in before
    }


def component_memory(cluster: Super) -> dict[str, float]:
    """Return RSS in MiB of each of our components (of the largest pod where there are several)."""
    pods = [pod for pod in cluster.use() if pod.namespace == "vc-manager"]
    return {
        component: max((p.rss / MIB for p in pods if p.name.startswith(component)), default=0.0)
        for component in COMPONENTS
    }


def measure(cluster: Super, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the whole measurement and return its figures."""
    results: dict[str, Any] = {"noise": noise(), "cores": os.cpu_count()}
    with (
        tempfile.TemporaryDirectory() as folder,
        tenants(cluster) as made,
    ):
        for number in range(arguments.tenants):
            name = f"bench-{number}"
            print(f"creating tenant {name}", flush=True)
            made[name] = {}
            made[name] = create(cluster, name, arguments.cluster_version, Path(folder))
            if number == 0:
                print(f"resting for {arguments.idle:.0f} s, twice", flush=True)
                time.sleep(arguments.idle)
                results["idle"] = idle(cluster, root_of(cluster, name), arguments.idle)
                results["components_1"] = component_memory(cluster)
        time.sleep(arguments.idle / 2)
        results[f"components_{arguments.tenants}"] = component_memory(cluster)
        results["create"] = dict(made)
    return results


def table(results: dict[str, Any]) -> str:
    """Return the figures as lines for people."""
    at_rest = results["idle"]
    total = {key: sum(pod[key] for pod in at_rest.values()) for key in next(iter(at_rest.values()))}
    seen = results["noise"]
    lines = [
        f"machine: {results['cores']} cores, load {seen['load_1min']:.2f}",
        f"noise: a fixed loop took {seen['median_ms']:.0f} ms, spread {seen['spread']:.0%}",
        "",
        f"{'tenant':24}{'create s':>12}{'first request s':>18}",
    ]
    lines += [
        f"{name:24}{took['create_s']:12.1f}{took['first_request_s']:18.1f}"
        for name, took in results["create"].items()
    ]
    lines += ["", f"{'idle pod':34}{'millicores':>12}{'working set MiB':>18}{'RSS MiB':>10}"]
    lines += [
        f"{name:34}{use['millicores']:12.1f}{use['working_set_mib']:18.0f}{use['rss_mib']:10.0f}"
        for name, use in {**at_rest, "whole tenant": total}.items()
    ]
    columns = sorted(key for key in results if key.startswith("components_"))
    lines += ["", f"{'RSS MiB':24}" + "".join(f"{key[11:] + ' tenants':>12}" for key in columns)]
    lines += [
        f"{component:24}" + "".join(f"{results[key][component]:12.0f}" for key in columns)
        for component in COMPONENTS
    ]
    return "\n".join(lines)


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--super-kubeconfig", type=Path, default=ROOT / ".testbed" / "super.kubeconfig"
    )
    parser.add_argument("--cluster-version", default="v1.36")
    parser.add_argument("--tenants", type=int, default=5)
    parser.add_argument("--idle", type=float, default=60.0, help="seconds of quiet per sample")
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    parser.add_argument("--path", default=beside, help="PATH with kubectl, kubectl-vc")
    arguments = parser.parse_args()
    results = measure(Super(arguments.super_kubeconfig, arguments.path), arguments)
    print("\n" + table(results))
    into = ROOT / "bench" / "results" / "provision.json"
    into.parent.mkdir(exist_ok=True)
    into.write_text(json.dumps(results, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
