"""Sides to run the suite on: the super cluster (`control`), and tenants with a policy each.

Each side is of a Kubernetes minor, which is the suite's, on a super cluster of a minor of its own.

Hazard: cases of the control fill nodes and evict pods, so no tenant may run at the same time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from clusterversions import catalog
from tools.testbed import cache, chart
from tools.testbed.artifacts import registry
from tools.testbed.artifacts.images import PAUSE
from tools.testbed.artifacts.oci import Image
from tools.testbed.cluster.handle import REPOSITORY, ClusterHandle
from tools.testbed.commands import run
from tools.testbed.errors import TestbedError
from tools.testbed.progress import StepPrinter

NODES = 2
"""Number of its nodes."""


@dataclass(frozen=True, slots=True)
class SuiteTarget:
    """One place to run the suite on. An empty `policy` is the super cluster itself."""

    name: str
    policy: str
    has_holders: bool = False
    """Whether a pod of the tenant has to hold each node: the suite begins with no fewer than one,
    and `nodes.expose: onDemand` shows those alone that a pod of the tenant runs on."""
    minor: str = catalog.DEFAULT_MINOR
    """Kubernetes minor of the suite and of the tenant."""
    super_minor: str = catalog.DEFAULT_MINOR

    @property
    def title(self) -> str:
        """Name with its minors, where they are not the usual ones. It is also a folder's name."""
        tenant = "" if self.minor == catalog.DEFAULT_MINOR else f"-{self.minor}"
        below = "" if self.super_minor == catalog.DEFAULT_MINOR else f"-on-{self.super_minor}"
        return f"{self.name}{tenant}{below}"

    @property
    def folder(self) -> Path:
        """Folder of its results. Git ignores it."""
        return REPOSITORY / ".testbed" / "conformance" / self.title


SIDES = {
    side.name: side
    for side in (
        SuiteTarget("control", ""),
        SuiteTarget("tenant", "conformance"),
        SuiteTarget("baseline", "baseline", has_holders=True),
    )
}


def find(name: str, minor: str, super_minor: str) -> SuiteTarget:
    """Return a side with its minors.

    Raises TestbedError for a control of another minor than the super cluster's.
    """
    found = replace(SIDES[name], minor=minor, super_minor=super_minor)
    if not found.policy and minor != super_minor:
        raise TestbedError(
            f"the control runs on the super cluster itself, which is of Kubernetes {super_minor}."
            f" Name a tenant's side (`--side tenant`), or use `--super-minor {minor}`"
        )
    return found


def cluster(super_minor: str, images: Iterable[Image], progress: StepPrinter) -> ClusterHandle:
    """The super cluster with two nodes, our chart and the suite's images. Started if needed."""
    suffix = "" if super_minor == catalog.DEFAULT_MINOR else f"-{super_minor.replace('.', '-')}"
    found = ClusterHandle(f"conformance{suffix}", nodes=NODES, minor=super_minor)
    found.up(progress)
    chart.install(found, progress, values=chart.KUBELET_UPSTREAM)
    registry.publish(images, found.places.registry)
    return found


def enter(side: SuiteTarget, found: ClusterHandle, progress: StepPrinter) -> Path:
    """Make a side ready and return the kubeconfig for the suite.

    Tenants of other sides are deleted, because their pods would count in the cases of this one.
    """
    environment = _environment(found)
    for name in _tenants(environment):
        if name != side.name or not side.policy:
            with progress.step(f"remove the tenant {name}"):
                _vc(environment, "delete", name)
    if not side.policy:
        return found.kubeconfig
    kubeconfig = side.folder / "kubeconfig"
    side.folder.mkdir(parents=True, exist_ok=True)
    kubeconfig.unlink(missing_ok=True)  # an old file, because kubectl-vc replaces none
    with progress.step(f"tenant {side.name} with the policy {side.policy}"):
        if side.name in _tenants(environment):
            _vc(environment, "kubeconfig", side.name, "-o", str(kubeconfig))
        else:
            manifest = side.folder / "tenant.json"
            cache.write_atomic(manifest, json.dumps(_virtual_cluster(side)))
            _vc(environment, "create", "-f", str(manifest), "-o", str(kubeconfig))
        ready = ("--for=condition=DNSReady", "--timeout=120s")
        run(["kubectl", "wait", f"virtualcluster/{side.name}", *ready], env=environment)
    if side.has_holders:
        with progress.step("a pod of the tenant on each node"):
            _hold_nodes(kubeconfig, side.folder / "holders.json", environment)
    return kubeconfig


def _hold_nodes(kubeconfig: Path, manifest: Path, environment: Mapping[str, str]) -> None:
    labels = {"app": "holder"}
    apart = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    container = {"name": "pause", "image": PAUSE}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "holder", "namespace": "kube-system"},
        "spec": {
            "replicas": NODES,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"affinity": affinity, "containers": [container]},
            },
        },
    }
    cache.write_atomic(manifest, json.dumps(deployment))
    kubectl = ["kubectl", f"--kubeconfig={kubeconfig}"]
    run([*kubectl, "apply", "-f", str(manifest)], env=environment)
    rollout = ["rollout", "status", "-n", "kube-system", "deployment/holder", "--timeout=120s"]
    run([*kubectl, *rollout], env=environment)
    run([*kubectl, "wait", "node", "--all", "--for=condition=Ready"], env=environment)


def environment_of_suite(found: ClusterHandle) -> dict[str, str]:
    """Return the environment of the suite's program, besides the kubeconfig."""
    settings = found.environment()
    return {name: settings[name] for name in ("NO_PROXY", "KUBECACHEDIR", "PATH")}


def _virtual_cluster(side: SuiteTarget) -> dict[str, object]:
    return {
        "apiVersion": "tenancy.x-k8s.io/v1alpha1",
        "kind": "VirtualCluster",
        "metadata": {"name": side.name, "namespace": "default"},
        "spec": {"clusterVersionName": f"v{side.minor}", "policyRef": {"name": side.policy}},
    }


def _environment(found: ClusterHandle) -> dict[str, str]:
    return {**os.environ, **found.environment()}


def _tenants(environment: Mapping[str, str]) -> list[str]:
    found = run(["kubectl", "get", "virtualclusters", "-o", "json"], env=environment)
    return [item["metadata"]["name"] for item in json.loads(found)["items"]]


def _vc(environment: Mapping[str, str], verb: str, *arguments: str) -> None:
    try:
        run(["kubectl", "vc", verb, *arguments], env=environment)
    except TestbedError as error:
        status = run(
            ["kubectl", "get", "virtualclusters", "-o", "yaml"], env=environment, check=False
        )
        raise TestbedError(f"{error}\n{status[-1500:]}") from error
