"""`kubectl vc doctor`: seeded faults of an installation, and the link that is named first."""

import pytest

from kubectl_vc.installation import doctor
from kubectl_vc.output.cli_errors import CliError
from tests.support.kubectl_vc.installation_faults import (
    SOUND,
    agent_pod,
    check,
    daemon_set,
    deployment,
    named,
    resource_with,
)
from tests.support.kubectl_vc.object_faults import event, lease, node, waiting
from tests.unit.kubectl_vc.installation.test_webhook_checks import server

STALE = [lease(300) | {"metadata": {"name": name}} for name in ("vc-manager", "vc-syncer")]
FRESH = [lease() | {"metadata": {"name": name}} for name in ("vc-manager", "vc-syncer")]
BROKEN_IMAGE = {
    "metadata": {"name": "vc-syncer-1"},
    "status": {"containerStatuses": [waiting("ImagePullBackOff")]},
}
SHORT_FORM = resource_with("v1.36", spec={"kubernetesVersion": "1.36"})


def cordoned(name: str) -> dict:
    """Return a node that is ready and takes no new pods."""
    return node(name=name) | {"spec": {"unschedulable": True}}


FAULTS = {
    "CRD missing": ({"custom_resource_definitions": []}, "crds"),
    "CRD not established": (
        {
            "custom_resource_definitions": [
                {**each, "status": {}} for each in SOUND.custom_resource_definitions
            ]
        },
        "crds",
    ),
    "CRD is being deleted": (
        {
            "custom_resource_definitions": [
                {**each, "metadata": {**each["metadata"], "deletionTimestamp": "2026-11-28"}}
                for each in SOUND.custom_resource_definitions
            ]
        },
        "crds",
    ),
    "all nodes cordoned": ({"nodes": [cordoned("node-1")]}, "nodes"),
    "ready nodes cordoned, others down": (
        {"nodes": [cordoned("node-1"), node("False", name="node-2")]},
        "nodes",
    ),
    "webhook without an endpoint": ({"webhook_servers": [server()]}, "webhooks"),
    "no node": ({"nodes": []}, "nodes"),
    "all nodes down": ({"nodes": [node("Unknown")]}, "nodes"),
    "component's image missing": (
        {"pods": [BROKEN_IMAGE], "deployments": [deployment("vc-manager"), named("vc-syncer")]},
        "images",
    ),
    "manager not installed": ({"deployments": [deployment("vc-syncer")]}, "manager"),
    "manager down": (
        {"deployments": [deployment("vc-manager", ready=0), deployment("vc-syncer")]},
        "manager",
    ),
    "manager hangs": ({"leases": [STALE[0], FRESH[1]]}, "manager-lease"),
    "manager never led": ({"leases": [FRESH[1]]}, "manager-lease"),
    "syncer down": (
        {"deployments": [deployment("vc-manager"), deployment("vc-syncer", ready=0)]},
        "syncer",
    ),
    "syncer hangs": ({"leases": [FRESH[0], STALE[1]]}, "syncer-lease"),
    "syncer is a standby only": (
        {"leases": [FRESH[0], {"metadata": {"name": "vc-syncer"}, "spec": {}}]},
        "syncer-lease",
    ),
    "agents not installed": ({"daemon_sets": []}, "agents"),
    "agent down": ({"daemon_sets": [daemon_set(wanted=1, ready=0)], "pods": []}, "agents"),
    "no version": ({"cluster_versions": []}, "versions"),
    "no default class": ({"storage_classes": []}, "storage"),
    "class of a version missing": (
        {
            "cluster_versions": [
                resource_with(
                    "v", spec={"kubernetesVersion": "1.36", "etcdStorage": {"className": "fast"}}
                )
            ]
        },
        "storage",
    ),
    "no service range": ({"service_cidrs": []}, "service-range"),
    "service range not ready": ({"service_cidrs": [named("kubernetes")]}, "service-range"),
    "target away": ({"super_clusters": [named("t1")]}, "targets"),
}

NOTES = {
    "one node down": (
        {
            "nodes": [node(), node("False", name="node-2")],
            "pods": [agent_pod("node-1"), agent_pod("node-2")],
        },
        "nodes",
    ),
    "one node cordoned": (
        {
            "nodes": [node(), cordoned("node-2")],
            "pods": [agent_pod("node-1"), agent_pod("node-2")],
        },
        "nodes",
    ),
    "one replica of two": (
        {"deployments": [deployment("vc-manager", wanted=2), deployment("vc-syncer")]},
        "manager",
    ),
    "node without an agent": ({"nodes": [node(), node(name="node-2")]}, "agents"),
    "certificate of a kubelet": (
        {"agent_events": [event("UpstreamApiServer", "not verified")]},
        "kubelets",
    ),
}


def test_sound_installation_has_no_broken_link():
    assert {each.state for each in check()} == {"ok"}
    doctor.raise_for_broken_link(check())


@pytest.mark.parametrize("name", FAULTS)
def test_broken_link_is_named_first(name):
    changed, link = FAULTS[name]
    broken = doctor.find_broken_link(check(**changed))
    assert broken is not None
    assert broken.check == link
    assert broken.message
    assert broken.next_command
    with pytest.raises(CliError, match=f"^{link}: .* Next: "):
        doctor.raise_for_broken_link(check(**changed))


@pytest.mark.parametrize("name", NOTES)
def test_weakness_is_a_note(name):
    changed, link = NOTES[name]
    found = check(**changed)
    assert [each.check for each in found if each.state == "note"] == [link]
    doctor.raise_for_broken_link(found)


def test_bundles_of_upstream_need_no_default_class():
    bundle = resource_with("old", spec={"etcd": {}})
    found = {each.check: each for each in check(cluster_versions=[bundle], storage_classes=[])}
    assert found["storage"].state == "ok"


def test_agents_are_found_by_their_owner():
    other = agent_pod("node-1")
    other["metadata"]["ownerReferences"] = []
    found = {each.check: each for each in check(pods=[other])}
    assert found["agents"].state == "note"
