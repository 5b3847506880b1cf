"""Rows about objects: which twin is a hole, and no false alarm."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from kubectl_vc.audit.object_probes import OBJECT_PROBES, AuditFacts
from kubectl_vc.audit.objects import build_object
from kubectl_vc.audit.prober import build_plain_pod
from syncer.model.field_rules import FieldWalk
from syncer.model.rejections import RejectedError
from syncer.rules.pods import pod_build
from syncer.rules.storage import volumes
from tenancy.policies import BASELINE_POLICY, TenantVolumes
from tenancy.resources import PERSISTENT_VOLUMES, PODS
from tests.support.syncer.pods import FACTS as BUILD_FACTS

POLICY = structs.replace(
    BASELINE_POLICY, network=structs.replace(BASELINE_POLICY.network, service_types=("ClusterIP",))
)


FACTS = AuditFacts(
    policy=POLICY,
    decoy_uid="0b0e4a58-1c4f-4f5e-9b39-4a4d0a8f3a11",
    decoy_root="default-abcdef-shop",
    decoy_pod_ips=("10.2.0.3", "fd02::3"),
    super_api_ips=("10.9.0.1", "fd09::1"),
    storage_class="fast",
    runtime_class="gvisor",
)


@pytest.mark.parametrize("probe", OBJECT_PROBES, ids=lambda probe: probe.name)
def test_a_twin_with_the_trait_is_a_hole_and_one_without_is_none(probe):
    whole = build_object(probe, FACTS, "busybox")
    assert probe.applies(FACTS)
    assert probe.is_hole(whole, FACTS), "synced as it is, it must be a hole"
    plain = next(each for each in OBJECT_PROBES if each.name == "host-pid")
    bare = build_object(plain, FACTS, "busybox")
    bare["spec"].pop("hostPID")
    bare["metadata"]["annotations"] = {}
    if probe.resource is not PODS:
        bare["spec"] = {}
    assert not probe.is_hole(bare, FACTS)


@pytest.mark.parametrize(
    "probe", [each for each in OBJECT_PROBES if each.resource is PODS], ids=lambda probe: probe.name
)
def test_the_rules_of_the_syncer_leave_no_hole(probe):
    """No false alarm: what they build from the object of each row lacks its trait."""
    made = build_object(probe, FACTS, "busybox")
    made["metadata"] |= {"namespace": "web", "uid": "pod-uid"}
    try:
        twin = pod_build.build_super_pod(made, BUILD_FACTS._replace(policy=POLICY)).pod
    except RejectedError:
        return
    assert not probe.is_hole(twin, FACTS)


@pytest.mark.parametrize(
    "probe",
    [each for each in OBJECT_PROBES if each.resource is PERSISTENT_VOLUMES],
    ids=lambda probe: probe.name,
)
def test_the_rules_of_the_syncer_refuse_a_volume_of_a_node(probe):
    """A policy that offers sources of volumes offers no path of a node."""
    spec = build_object(probe, FACTS, "busybox")["spec"]
    offered = TenantVolumes(nfs_servers=("nfs.example",), csi_drivers=("csi.example",))
    walk = FieldWalk()
    walk.walk_fields(spec, volumes.build_volume_rules(offered), "spec")
    assert "volume-source" in {problem.rule for problem in walk.problems}


@pytest.mark.parametrize(
    ("addresses", "absent"),
    [
        (("10.2.0.3",), {"decoy-endpoint-ipv6", "super-api-endpoint-ipv6"}),
        (("fd02::3",), {"decoy-endpoint", "super-api-endpoint"}),
    ],
)
def test_a_cluster_with_one_ip_family_has_no_row_of_the_other(addresses, absent):
    facts = replace(FACTS, decoy_pod_ips=addresses, super_api_ips=addresses)
    assert {probe.name for probe in OBJECT_PROBES if not probe.applies(facts)} == absent


def test_the_rules_of_the_syncer_accept_the_plain_pod():
    """Otherwise they would refuse each row for another reason than its trait."""
    made = build_plain_pod("plain", "busybox")
    made["metadata"] |= {"namespace": "web", "uid": "pod-uid"}
    assert pod_build.build_super_pod(made, BUILD_FACTS._replace(policy=POLICY)).pod
