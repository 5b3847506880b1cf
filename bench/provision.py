"""Provisioning time, idle cost of a tenant, memory of our components.

Runs against a super cluster with the chart installed (`make up`), images present. Creates tenants
in the namespace default and deletes them: first one by one, then ten at once. Then it creates
`bench-0` to `bench-4` one after the other and keeps all of them. For the first two it reports the
processor time of vc-manager. Prints a table, writes JSON and plots to `bench/results/`.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.programs import image_python, super_cluster
from bench.programs.super_cluster import (
    MIB,
    PodMemory,
    SuperKubectl,
    create,
    create_at_once,
    root_of,
    tenants,
)

_BETWEEN = 10.0  # seconds in which what a deleted tenant left comes to rest
_TOLD = 12.0  # seconds until a kubelet has looked at its pods' processor time again
COMPONENTS = ("vc-manager", "vc-syncer", "vn-agent")


def idle(cluster: SuperKubectl, root: str, seconds: float) -> dict[str, dict[str, float]]:
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


def component_memory(cluster: SuperKubectl) -> dict[str, float]:
    """Return RSS in MiB of each of our components (of the largest pod where there are several)."""
    pods = [pod for pod in cluster.use() if pod.namespace == "vc-manager"]
    return {
        component: max((p.rss / MIB for p in pods if p.name.startswith(component)), default=0.0)
        for component in COMPONENTS
    }


def manager_cpu(cluster: SuperKubectl) -> float:
    """Return the processor seconds of vc-manager's pods since they started."""
    return sum(pod.cpu_ns for pod in cluster.use() if _is_managers(pod)) / 1e9


def _is_managers(pod: PodMemory) -> bool:
    return pod.namespace == "vc-manager" and pod.name.startswith("vc-manager")


def at_once(
    cluster: SuperKubectl, cluster_version: str, folder: Path, count: int
) -> dict[str, Any]:
    """Create tenants in parallel. Returns seconds of each and of all, and vc-manager's CPU seconds.

    Deletion is not measured. The kubelet reports processor time about 10 s late.
    """
    names = [f"bench-together-{number}" for number in range(count)]
    print(f"creating {count} tenants at once", flush=True)
    time.sleep(_BETWEEN)
    with tenants(cluster) as made:
        made |= {name: {} for name in names}
        before, begun = manager_cpu(cluster), time.perf_counter()
        each = create_at_once(cluster, names, cluster_version, folder)
        took = time.perf_counter() - begun
        time.sleep(_TOLD)
        cpu = manager_cpu(cluster) - before
    time.sleep(_BETWEEN)
    return {"each": each, "all_s": took, "per_tenant_s": took / count, "manager_cpu_s": cpu}


def alone(
    cluster: SuperKubectl, cluster_version: str, folder: Path, times: int
) -> list[dict[str, float]]:
    """Create a tenant several times, each time without another, and delete it."""
    found: list[dict[str, float]] = []
    for number in range(times):
        name = f"bench-alone-{number}"
        print(f"creating tenant {name}", flush=True)
        with tenants(cluster) as made:
            made[name] = {}
            before = manager_cpu(cluster)
            made[name] = create(cluster, name, cluster_version, folder)
            time.sleep(_TOLD)
            found.append(made[name] | {"manager_cpu_s": manager_cpu(cluster) - before})
        time.sleep(_BETWEEN)
    return found


def measure(cluster: SuperKubectl, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the whole measurement and return its figures."""
    results: dict[str, Any] = {"noise": super_cluster.noise(), **image_python.machine()}
    with tempfile.TemporaryDirectory() as folder, tenants(cluster) as made:
        version = arguments.cluster_version
        results["alone"] = alone(cluster, version, Path(folder), arguments.alone)
        if arguments.at_once:
            results["at_once"] = at_once(cluster, version, Path(folder), arguments.at_once)
        for number in range(arguments.tenants):
            name = f"bench-{number}"
            print(f"creating tenant {name}", flush=True)
            made[name] = {}
            made[name] = create(cluster, name, version, Path(folder))
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
        _spread("alone, create s", [each["create_s"] for each in results["alone"]]),
        _spread("alone, first request s", [each["first_request_s"] for each in results["alone"]]),
        *_managers(results),
        *_together(results.get("at_once")),
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


def _managers(results: dict[str, Any]) -> list[str]:
    """Return the processor time of vc-manager for one tenant. Older results lack it."""
    seconds = [each["manager_cpu_s"] for each in results["alone"] if "manager_cpu_s" in each]
    return [_spread("alone, vc-manager CPU-s", seconds)] if seconds else []


def _together(found: dict[str, Any] | None) -> list[str]:
    if not found:
        return []
    each = [took["first_request_s"] for took in found["each"].values()]
    return [
        _spread("at once, first request s", each),
        (
            f"all {len(each)} at once {found['all_s']:.1f} s, {found['per_tenant_s']:.1f} s a"
            f" tenant, vc-manager {found['manager_cpu_s']:.1f} CPU-s"
        ),
    ]


def _spread(what: str, seconds: list[float]) -> str:
    middle = statistics.median(seconds)
    return (
        f"{what:26}median {middle:.1f}, {min(seconds):.1f} to {max(seconds):.1f}, of {len(seconds)}"
    )


def main() -> int:
    """Measure, print, write."""
    parser = super_cluster.parser(__doc__)
    parser.add_argument("--idle", type=float, default=60.0, help="seconds of quiet per sample")
    parser.add_argument(
        "--at-once", type=int, default=10, help="tenants to create together (0: none)"
    )
    parser.add_argument("--alone", type=int, default=5, help="tenants to make one by one")
    arguments = parser.parse_args()
    results = measure(SuperKubectl(arguments.super_kubeconfig, arguments.path), arguments)
    print("\n" + table(results))
    super_cluster.write("provision", results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
