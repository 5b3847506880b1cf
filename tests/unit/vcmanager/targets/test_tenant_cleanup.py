"""Objects of a deleted tenant in targets are deleted, and no others."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest

from kubeio import errors
from tenancy import ownership, wellknown
from tenancy.resources import NAMESPACES
from tests.support.vcmanager.factories import TENANT, RecordingClient, fake_means
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.targets import tenant_cleanup

IDENTITY = "kube-system-of-c2"
BODY = {"metadata": {"name": TENANT.name}, "status": {"targets": [{"name": "c2"}]}}
FAR = replace(TENANT, super_cluster_uid="r1")


def cluster(**annotations: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "c2", "uid": "r1", "annotations": annotations},
        "spec": {"secretRef": {"name": "target-c2"}},
        "status": {"identity": IDENTITY},
    }


def namespace(name: str = "x-web", tenant: ownership.Tenant = FAR, **more: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "labels": ownership.build_owner_labels(tenant, "web"),
            "annotations": ownership.build_owner_annotations(tenant, "web", "u"),
            **more,
        }
    }


class ListingTarget(RecordingClient):
    """The client of the target: notes what it is asked to list."""

    def __init__(self, *namespaces: dict[str, Any], identity: str = IDENTITY) -> None:
        super().__init__({"kube-system": {"metadata": {"uid": identity}}})
        self.listed, self.selectors = list(namespaces), []

    async def list(self, resource: Any, **options: Any) -> dict[str, Any]:
        assert resource is NAMESPACES
        self.selectors.append(options["label_selector"])
        return await super().list(resource, **options)


def means_of(there: ListingTarget, **annotations: str) -> Any:
    """Return what the manager has, with this client of the target."""
    texts = {"server": "https://192.0.2.7:6443", "ca.crt": "ca", "token": "t"}
    data = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    home = RecordingClient({"target-c2": {"data": data}})
    home.listed = [cluster(**annotations)]
    means = fake_means(home)

    async def client(name: str, endpoint: Any) -> ListingTarget:
        assert (name, endpoint.token) == ("c2", "t")
        return there

    means.target_clients.get_client = client
    return means


async def test_its_namespaces_go_and_are_waited_for():
    there = ListingTarget(namespace(), namespace("x-old", deletionTimestamp="now"))
    with pytest.raises(
        PhaseBlocked, match="namespaces in the super cluster c2 to be deleted: x-web, x-old"
    ):
        await tenant_cleanup.delete_tenant_in_targets(means_of(there), BODY, TENANT)
    assert there.calls == [("delete", "x-web")]
    assert there.selectors == [f"{wellknown.VC_UID}={TENANT.uid},{wellknown.SUPER_CLUSTER}=r1"]
    there.listed = []
    await tenant_cleanup.delete_tenant_in_targets(means_of(there), BODY, TENANT)


@pytest.mark.parametrize(
    "found",
    [
        namespace(tenant=TENANT),
        namespace(tenant=replace(FAR, super_cluster_uid="r2")),
        namespace(tenant=replace(FAR, uid="another")),
        namespace(labels={}),
        namespace(annotations={}),
    ],
)
async def test_what_is_not_recorded_as_its_own_twice_over_stays(found: dict[str, Any]):
    there = ListingTarget(found)
    await tenant_cleanup.delete_tenant_in_targets(means_of(there), BODY, TENANT)
    assert there.calls == []


async def test_a_tenant_that_was_at_home_alone_sends_no_request():
    means = fake_means(RecordingClient())
    await tenant_cleanup.delete_tenant_in_targets(means, {"metadata": {}, "status": {}}, TENANT)
    await tenant_cleanup.delete_tenant_in_targets(means, {"metadata": {}}, TENANT)


async def test_one_that_does_not_answer_holds_the_end_up_and_reports_how_to_let_go():
    there = ListingTarget(namespace())
    there.problems["list", "namespaces"] = errors.Unavailable("no route to host")
    with pytest.raises(PhaseBlocked) as held:
        await tenant_cleanup.delete_tenant_in_targets(means_of(there), BODY, TENANT)
    assert "no route to host" in held.value.message
    assert f"kubectl annotate supercluster c2 {wellknown.ABANDON}=" in held.value.message
    assert there.calls == []


@pytest.mark.parametrize("identity", ["another", ""])
async def test_another_cluster_behind_the_address_is_not_touched(identity: str):
    there = ListingTarget(namespace(), identity=identity)
    with pytest.raises(PhaseBlocked, match="another cluster answers"):
        await tenant_cleanup.delete_tenant_in_targets(means_of(there), BODY, TENANT)
    assert there.calls == []


async def test_one_that_is_abandoned_or_not_declared_any_more_holds_nothing_up():
    there = ListingTarget(namespace())
    await tenant_cleanup.delete_tenant_in_targets(
        means_of(there, **{wellknown.ABANDON: ""}), BODY, TENANT
    )
    means = means_of(there)
    means.super_client.listed = []
    await tenant_cleanup.delete_tenant_in_targets(means, BODY, TENANT)
    assert there.calls == []


async def test_a_manager_that_lost_its_lease_deletes_nothing():
    there = ListingTarget(namespace())
    there.problems["delete", "x-web"] = errors.Fenced("the Lease was not renewed")
    with pytest.raises(errors.Fenced):
        await tenant_cleanup.delete_tenant_in_targets(means_of(there), BODY, TENANT)
