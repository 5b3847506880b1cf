"""`kubectl vc why`: seeded faults, and the layer that is named first."""

from dataclasses import replace

import pytest

from kubectl_vc.diagnosis import why
from kubectl_vc.diagnosis.layer_table import diagnose
from kubectl_vc.diagnosis.layers import LAYERS
from tests.support.kubectl_vc.layer_faults import (
    KIND_FAULTS,
    SERVICE,
    SUPER_FAULTS,
    assert_named,
    of_kind,
)
from tests.support.kubectl_vc.object_faults import (
    OTHERS,
    SUPER_NAMESPACE,
    ago,
    bare,
    both,
    event,
    facts,
    node,
    pending,
    pod,
    super_facts,
    waiting,
)

TENANT_FAULTS = {
    name: layer
    for name, (_, layer) in SUPER_FAULTS.items()
    if layer
    in {
        *("policy", "quota", "name", "super-admission", "needs", "node-choice", "namespace"),
        *("volume-claim", "no-node", "image", "memory", "container", "init-container", "parked"),
        *("eviction", "readiness-gate", "container-configuration", "tenant-admission"),
        *("scheduling-gate", "terminating", "load-balancer", "ingress-controller", "finalizer"),
    }
    and name != "claim without a provisioner"
}
"""Faults that a tenant can see by itself, as far as the same facts are in its own API."""


@pytest.mark.parametrize("name", KIND_FAULTS)
def test_fault_is_named_by_its_layer(name):
    assert_named(KIND_FAULTS[name])


def test_there_are_enough_faults():
    assert len(SUPER_FAULTS) >= 60
    assert {layer for _, layer in SUPER_FAULTS.values()} == {
        each.name for each in LAYERS if each.is_fault
    }


@pytest.mark.parametrize("name", TENANT_FAULTS)
def test_tenant_sees_the_same_layer_by_its_own_facts(name):
    found, layer = SUPER_FAULTS[name]
    assert diagnose(replace(found, super_facts=None), LAYERS).layer == layer


@pytest.mark.parametrize(
    ("found", "layer"),
    [
        (both(pod()), "none"),
        (facts(pod()), "none"),
        (facts(bare() | {"metadata": {"name": "web", "creationTimestamp": ago(5)}}), "new"),
        (both(pending(containers=[waiting("ContainerCreating")])), "starting"),
        (of_kind("Deployment", SERVICE), "not-synced"),
        (both(pod(), unknown=("nodes",), is_agent_known=False), "unknown"),
        (of_kind("Service", SERVICE | {"spec": {}}, SERVICE | {"spec": {}}), "none"),
        (both(pod(), node=node("Unknown"), is_node_known=False), "none"),
        (facts(pod(), tenant_node=None, is_tenant_node_known=False), "none"),
        (facts(pod(), super_facts(is_copy_known=False, node=None, is_node_known=False)), "none"),
        (
            of_kind(
                "Service",
                SERVICE | {"spec": {}},
                SERVICE | {"spec": {}},
                tenant_events=[event("WaitingForDeletion", "over", syncer=True)],
            ),
            "none",
        ),
    ],
)
def test_sound_object_is_not_held(found, layer):
    seen = diagnose(found, LAYERS)
    assert (seen.layer, seen.is_held) == (layer, False)


@pytest.mark.parametrize("name", SUPER_FAULTS)
def test_tenant_view_has_no_name_of_the_super_cluster(name):
    """SEC-250."""
    found, _ = SUPER_FAULTS[name]
    hidden = replace(found, super_facts=None)
    if hidden.tenant_object is None:
        return  # a tenant gets "not found"
    seen = diagnose(hidden, LAYERS)
    shown = why.build_report(hidden, seen) + str(why.build_document(hidden, seen))
    assert OTHERS not in shown
    assert "Copy" not in shown
    assert "vc-manager" not in shown


def test_super_view_shows_the_copy_and_its_namespace():
    shown = why.build_report(both(pod()), diagnose(both(pod()), LAYERS))
    assert f"Pod {SUPER_NAMESPACE}/web, exists, Running" in shown
    assert "Held by:" in shown
