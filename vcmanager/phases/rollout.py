"""Replacement of pods under updateStrategy OnDelete, and of pods that never become ready.

A StatefulSet waits for a pod that is not ready before it continues, and so never replaces a pod of
a faulty template. Hazard: only one pod may be replaced at a time, and a ready pod only when all
pods are ready. Otherwise a renewed certificate would reduce a tenant's etcd to less than its
quorum.

Hazard: a member of etcd that is late for its readiness may still vote. It may only be replaced if
the ready pods are a quorum without it, or if none is ready. Otherwise the quorum would be lost. A
ready member proves a quorum, because its readiness is a linearizable read.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kubeio import Object, errors
from tenancy.resources import PODS
from vcmanager.plan.control_plane import ETCD
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.observed import ObservedObjects

_REVISION_LABEL = "controller-revision-hash"


def choose_next_pod(workload: Mapping[str, Any], pods: Iterable[Object]) -> Object | None:
    """Return the pod to be replaced now, or None: the last one of an older template.

    A pod that is not ready goes first under every strategy, because it serves no client.
    """
    found, status = list(pods), workload.get("status") or {}
    wanted = status.get("updateRevision")
    if (
        not wanted
        or status.get("observedGeneration", 0) < workload["metadata"].get("generation", 0)
        or any("deletionTimestamp" in pod["metadata"] for pod in found)
    ):
        return None
    strategy = workload["spec"].get("updateStrategy") or {}
    if (strategy.get("rollingUpdate") or {}).get("partition"):
        return None  # pods under the partition are old on purpose, and are recreated old
    old = [pod for pod in found if _get_revision(pod) != wanted]
    broken = [pod for pod in old if not _is_ready(pod)]
    if broken and _is_replaceable(workload, found):
        return _get_last_pod(broken)
    all_ready = status.get("readyReplicas", 0) >= workload["spec"].get("replicas", 1)
    return _get_last_pod(old) if strategy.get("type") == "OnDelete" and all_ready else None


def _is_replaceable(workload: Mapping[str, Any], pods: Iterable[Object]) -> bool:
    """Return whether a pod that is not ready may be replaced now.

    Two members have no quorum without one of them. That is a step of a change of their number, and
    a faulty template must not hold it.
    """
    if workload["metadata"]["name"] != ETCD:
        return True
    replicas = int(workload["spec"].get("replicas", 1))
    ready = sum(_is_ready(pod) for pod in pods)
    return ready == 0 or ready >= min(replicas // 2 + 1, replicas - 1)


async def replace_outdated_pods(means: ReconcileContext, snapshot: ObservedObjects) -> None:
    """Replace at most one pod of each StatefulSet."""
    for name, workload in snapshot.get_by_name("StatefulSet").items():
        pod = choose_next_pod(workload, snapshot.iterate_pods(name))
        if pod is None:
            continue
        metadata = pod["metadata"]
        try:
            await means.super_client.delete(
                PODS, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"]
            )
        except errors.NotFound:
            continue


def _get_last_pod(pods: Iterable[Object]) -> Object | None:
    return max(pods, key=lambda pod: str(pod["metadata"]["name"]), default=None)


def _get_revision(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get(_REVISION_LABEL, ""))


def _is_ready(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
