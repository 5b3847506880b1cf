"""Installation of the chart: images, then `helm upgrade --install`, then a wait.

Hazard: after a change of code the chart must be installed again. The tag of an image in the
embedded cluster is its content's digest, so running pods keep the old code.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tools.testbed import cache
from tools.testbed.artifacts import binaries, haproxy, images, product
from tools.testbed.artifacts.registry import publish
from tools.testbed.cluster.handle import ClusterHandle
from tools.testbed.commands import run
from tools.testbed.errors import TestbedError
from tools.testbed.progress import StepPrinter

NAMESPACE = "vc-manager"
RELEASE = "virtual-cluster"
CHART = product.REPOSITORY / "charts" / "virtual-cluster"
KUBELET_UPSTREAM = ("agent.upstream=auto",)
"""Values for clusters whose kubelets have certificates: metrics of pods need `nodes/proxy`."""
_API_PROXY = "apiProxy.enabled=true"
"""Value with which the chart needs the image of HAProxy."""
WORKLOADS = ("deployment/vc-manager", "deployment/vc-syncer", "daemonset/vn-agent")


def install(
    target: ClusterHandle | Path,
    progress: StepPrinter | None = None,
    *,
    registry: str | None = None,
    values: tuple[str, ...] = (),
    seconds: int = 180,
) -> None:
    """Install or upgrade the chart on an embedded cluster, or on the cluster of a kubeconfig.

    With `registry` the images come from that registry, where `push` wrote them. Without it the
    cluster is an embedded one, which gets the images by itself. `values` are further `--set`
    arguments.
    """
    progress = progress or StepPrinter()
    binaries.build(map(binaries.program, ("helm", "kubectl")), progress)
    made = product.build(progress)
    if registry is None:
        cluster = target if isinstance(target, ClusterHandle) else _embedded(target)
        published = [*made, haproxy.build_image(progress)] if _API_PROXY in values else made
        publish(published, cluster.places.registry)
        environment = {**os.environ, **cluster.environment()}
    else:
        kubeconfig = target.kubeconfig if isinstance(target, ClusterHandle) else target
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    settings = (
        f"image.registry={(registry or images.PREFIX).rstrip('/')}",
        f"image.tag={made[0].tag}",
        *values,
    )
    with progress.step("install the chart"):
        _helm(environment, *(word for setting in settings for word in ("--set", setting)))
    with progress.step("wait for vc-manager, vc-syncer and vn-agent"):
        _wait(environment, seconds)


def _embedded(kubeconfig: Path) -> ClusterHandle:
    cluster = ClusterHandle(kubeconfig.name.removesuffix(".kubeconfig"))
    if cluster.kubeconfig.resolve() != kubeconfig.resolve() or not cluster.is_up():
        raise TestbedError(
            f"{kubeconfig} is not of an embedded cluster that is up. Name the registry that has"
            " the images (IMAGES=REGISTRY/PREFIX), or run `up`"
        )
    return cluster


def _helm(environment: Mapping[str, str], *settings: str) -> None:
    home = cache.folder("helm")
    own = {name: str(home) for name in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")}
    helm = str(binaries.path("helm"))
    command = [helm, "upgrade", "--install", RELEASE, str(CHART), "--namespace", NAMESPACE]
    # A release on one's own cluster keeps what its owner has set.
    command += ["--create-namespace", "--reset-then-reuse-values"]
    run([*command, *settings], env={**environment, **own})


def _wait(environment: Mapping[str, str], seconds: int) -> None:
    kubectl = [str(binaries.path("kubectl")), "--namespace", NAMESPACE]
    try:
        for workload in WORKLOADS:
            run([*kubectl, "rollout", "status", workload, f"--timeout={seconds}s"], env=environment)
    except TestbedError as error:
        pods = run([*kubectl, "get", "pods", "-o", "wide"], check=False, env=environment)
        for workload in WORKLOADS:
            pods += run(
                [*kubectl, "logs", workload, "--tail=5", "--prefix"], check=False, env=environment
            )
        events = run(
            [*kubectl, "get", "events", "--sort-by=.lastTimestamp"], check=False, env=environment
        )
        tail = "\n".join(events.splitlines()[-8:])
        raise TestbedError(f"{error}\n{pods}\n{tail}") from error
