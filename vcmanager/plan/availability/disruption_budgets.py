"""PodDisruptionBudgets of etcd and of the API server, if they have several replicas.

Pure. Hazard: a drain must evict one member of etcd at a time. Two drained nodes would otherwise
leave etcd without its quorum. A single replica has no budget, because a budget that lets no pod be
evicted would block every drain of its node.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kubeio import Object
from vcmanager.plan import upstream_bundles

_COMPONENTS = frozenset({upstream_bundles.ETCD, upstream_bundles.API_SERVER})


def build_disruption_budgets(workloads: Iterable[Mapping[str, Any]]) -> list[Object]:
    """Return the budgets of the StatefulSets of a plan."""
    return [
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {
                "name": each["metadata"]["name"],
                "namespace": each["metadata"]["namespace"],
            },
            "spec": {"maxUnavailable": 1, "selector": dict(each["spec"]["selector"])},
        }
        for each in workloads
        if each["kind"] == "StatefulSet"
        and each["metadata"]["name"] in _COMPONENTS
        and each["spec"].get("replicas", 1) > 1
    ]
