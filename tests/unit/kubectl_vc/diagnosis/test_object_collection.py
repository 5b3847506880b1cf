"""Facts of `kubectl vc why`: what a pod needs, and the pod of a workload."""

from typing import Any

import pytest

from kubectl_vc.diagnosis import object_collection
from kubectl_vc.diagnosis.kind_discovery import find_object
from kubectl_vc.diagnosis.object_kinds import ObjectName, parse_object_name
from kubeio import errors
from tenancy import wellknown
from tenancy.ownership import Tenant
from tenancy.resources import (
    CONFIG_MAPS,
    EVENTS,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    Resource,
)
from tests.support.kubectl_vc.installation_faults import named
from tests.support.kubectl_vc.object_faults import (
    NOT_READY,
    event,
    facts,
    node,
    pod,
    virtual_cluster,
)

NEEDY = {
    "metadata": {"name": "web"},
    "spec": {
        "serviceAccountName": "robot",
        "containers": [
            {
                "envFrom": [{"configMapRef": {"name": "a"}}, {"secretRef": {"name": "b"}}],
                "env": [
                    {"name": "X", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
                    {"name": "Y", "valueFrom": {"secretKeyRef": {"name": "d", "optional": True}}},
                    {"name": "Z", "value": "plain"},
                ],
            }
        ],
        "volumes": [
            {"name": "v", "configMap": {"name": "e"}},
            {"name": "w", "secret": {"secretName": "f"}},
            {"name": "x", "projected": {"sources": [{"secret": {"name": "g"}}]}},
            {"name": "y", "persistentVolumeClaim": {"claimName": "h"}},
            {"name": "z", "ephemeral": {}},
            {"name": "e", "ephemeral": {"volumeClaimTemplate": {}}},
        ],
    },
}


def test_needs_of_a_pod_are_all_references_that_are_not_optional():
    assert object_collection.list_needs(NEEDY) == [
        (SERVICE_ACCOUNTS, "robot"),
        (CONFIG_MAPS, "a"),
        (SECRETS, "b"),
        (CONFIG_MAPS, "c"),
        (CONFIG_MAPS, "e"),
        (SECRETS, "f"),
        (SECRETS, "g"),
    ]
    assert object_collection.list_needs({"metadata": {}, "spec": {}}) == []


def test_claims_of_a_pod_include_those_of_ephemeral_volumes():
    assert object_collection.list_claim_names(NEEDY) == ["h", "web-e"]


class StubTenant:
    """A tenant's API with some objects by kind and name."""

    def __init__(self, **objects: list[dict[str, Any]]) -> None:
        self.objects = objects

    async def get(self, resource: Any, name: str, **_: Any) -> dict[str, Any]:
        for each in self.objects.get(resource.kind, ()):
            if each["metadata"]["name"] == name:
                return each
        raise errors.NotFound("none", status=404, reason="NotFound")

    async def list(self, resource: Any, **_: Any) -> dict[str, Any]:
        return {"items": self.objects.get(resource.kind, [])}


DEPLOYMENT = {
    "metadata": {"name": "web", "uid": "d", "creationTimestamp": "2026-11-28T00:00:00Z"},
    "spec": {"selector": {"matchLabels": {"app": "web"}}},
}


async def collect(wanted: str, **objects: list[dict[str, Any]]):
    """Return the facts of a tenant with some objects."""
    client: Any = StubTenant(**objects)
    name = await find_object(client, parse_object_name(wanted))
    return await object_collection.collect_tenant_facts(client, name, "shop")


async def test_workload_is_replaced_by_its_first_pod_that_is_not_ready():
    pods = [pod(name="good"), pod(NOT_READY, name="bad")]
    found = await collect("deploy/web", Deployment=[DEPLOYMENT], Pod=pods)
    assert (found.kind, found.name) == (PODS.kind, "bad")


async def test_a_kind_of_another_group_is_no_workload():
    """A Job of another group has pods of its own, and a selector means something else there."""
    wanted = ObjectName(Resource("batch.example.com", "v1", "jobs", "Deployment"), "web")
    client: Any = StubTenant(Deployment=[DEPLOYMENT], Pod=[pod(NOT_READY, name="bad")])
    found = await object_collection.collect_tenant_facts(client, wanted, "shop")
    assert (found.kind, found.name) == ("Deployment.batch.example.com", "web")


async def test_workload_without_pods_has_the_events_of_its_replica_sets():
    owned = {"metadata": {"name": "web-1", "uid": "r", "ownerReferences": [{"uid": "d"}]}}
    events = [event("FailedCreate", "quota", uid="r"), event("Other", "x", uid="z")]
    found = await collect(
        "deployment/web", Deployment=[DEPLOYMENT], ReplicaSet=[owned], Event=events
    )
    assert found.kind == "Deployment"
    assert [each["reason"] for each in found.tenant_events] == ["FailedCreate"]


async def test_missing_needs_are_listed():
    body = NEEDY | {"metadata": {"name": "web", "uid": "u"}}
    found = await collect(
        "pod/web", Pod=[body], ConfigMap=[{"metadata": {"name": name}} for name in "ace"]
    )
    assert found.missing_needs == (
        "PersistentVolumeClaim h",
        "PersistentVolumeClaim web-e",
        "ServiceAccount robot",
        *("Secret b", "Secret f", "Secret g"),
    )


async def test_events_of_an_earlier_object_of_the_name_are_left_out():
    events = [event("Old", "x", uid="before"), event("New", "y", uid="u")]
    found = await collect("pod/web", Pod=[pod()], Event=events)
    assert [each["reason"] for each in found.tenant_events] == ["New"]


@pytest.mark.parametrize(
    ("verbs", "ruled"), [(["get", "list"], "Down"), (["get", "create"], "Mirror"), (None, "")]
)
async def test_rights_of_the_syncer_show_how_a_kind_is_synced(verbs, ruled):
    rule = {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": verbs}
    role = {
        "metadata": {"name": wellknown.SYNCER_RULES_ROLE},
        "rules": [rule] if verbs else [rule | {"resources": ["others"], "verbs": ["get"]}],
    }
    widget = {"metadata": {"name": "w", "uid": "u"}}
    client: Any = StubTenant(ClusterRole=[role], Widget=[widget])
    wanted = ObjectName(Resource("example.com", "v1", "widgets", "Widget"), "w")
    found = await object_collection.collect_tenant_facts(client, wanted, "shop")
    assert (found.kind, found.ruled, found.is_ruled_known) == ("Widget.example.com", ruled, True)
    assert found.has_copies == (ruled == "Down")


async def collect_super(targets: list[str], **objects: list[dict[str, Any]]):
    """Return the facts of the super cluster about the pod shop/web."""
    body = virtual_cluster(spec={"targets": [{"name": name} for name in targets]})
    tenant = Tenant(name="web", namespace="default", uid="vc", root="root")
    client: Any = StubTenant(**objects)
    return await object_collection.collect_super_facts(
        client, body, tenant, facts(pod()), PODS, manager_namespace="vc-manager"
    )


def owned(vc_uid: str) -> dict[str, Any]:
    """Return a super pod of a tenant."""
    return pod(annotations={wellknown.VC_UID: vc_uid, wellknown.UID: "u"})


async def test_copy_is_recognised_by_its_owner():
    assert (await collect_super([], Pod=[owned("vc")], Node=[node()])).copy is not None
    found = await collect_super([], Pod=[owned("other")])
    assert (found.copy, found.is_copy_known, found.is_node_known) == (None, True, False)


async def test_copy_of_a_tenant_with_targets_may_be_in_one_of_them():
    assert not (await collect_super(["t1"], SuperCluster=[named("t1")])).is_copy_known
    assert (await collect_super(["home"])).is_copy_known
    assert (await collect_super(["t1"], Pod=[owned("vc")], Node=[node()])).is_copy_known


async def test_absent_object_has_no_facts():
    found = await collect("pod/web", **{EVENTS.kind: []})
    assert found.tenant_object is None
