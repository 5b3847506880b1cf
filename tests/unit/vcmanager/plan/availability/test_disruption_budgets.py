from ipaddress import ip_network

import pytest
import yaml

from clusterversions import catalog
from tenancy.specs import ClusterVersionSpec
from tests.support.vcmanager.factories import TENANT, bundled, wish
from vcmanager.plan import control_plane
from vcmanager.plan.availability.disruption_budgets import build_disruption_budgets
from vcmanager.plan.service_cidrs import ServiceRange

SLICE = ServiceRange(ip_network("10.96.8.0/22"))


def short(replicas: int):
    version = ClusterVersionSpec(kubernetes_version="1.36", replicas=replicas)
    return control_plane.build_plan(wish(version=version), SLICE)


def whole(replicas: int):
    sample = yaml.safe_load(catalog.read_sample("upstream-shape"))
    for component in ("etcd", "apiServer"):
        statefulset = sample["spec"][component]["statefulset"]
        statefulset["spec"]["replicas"] = replicas
        statefulset["metadata"]["namespace"] = TENANT.root
    return control_plane.build_plan(bundled(sample), SLICE)


@pytest.mark.parametrize("made", [short, whole])
def test_three_replicas_have_a_budget_that_one_may_be_missing_from(made):
    budgets = build_disruption_budgets(made(3).workloads)
    assert [each["metadata"]["name"] for each in budgets] == ["etcd", "apiserver"]
    for each in budgets:
        assert each["metadata"]["namespace"] == TENANT.root
        labels = {"matchLabels": {"component-name": each["metadata"]["name"]}}
        assert each["spec"] == {"maxUnavailable": 1, "selector": labels}


@pytest.mark.parametrize("made", [short, whole])
def test_a_single_replica_has_none_because_its_node_could_not_be_drained(made):
    assert build_disruption_budgets(made(1).workloads) == []


@pytest.mark.parametrize("name", ["etcd", "apiserver"])
def test_replicas_are_spread_over_zones_and_nodes_as_far_as_there_are_any(name):
    for plan in (short(1), short(3)):
        (found,) = (
            each
            for each in plan.workloads
            if each["metadata"]["name"] == name and each["kind"] == "StatefulSet"
        )
        pod = found["spec"]["template"]
        (zones,) = pod["spec"]["topologySpreadConstraints"]
        assert (zones["topologyKey"], zones["whenUnsatisfiable"]) == (
            "topology.kubernetes.io/zone",
            "ScheduleAnyway",
        )
        (hosts,) = pod["spec"]["affinity"]["podAntiAffinity"][
            "preferredDuringSchedulingIgnoredDuringExecution"
        ]
        term = hosts["podAffinityTerm"]
        assert term["topologyKey"] == "kubernetes.io/hostname"
        for selector in (zones["labelSelector"], term["labelSelector"]):
            assert selector["matchLabels"].items() <= pod["metadata"]["labels"].items()
