"""Resize of a running pod: only the resources that the tenant wrote."""

from __future__ import annotations

from typing import Any

import pytest

from syncer.model.rejections import RejectedError
from syncer.rules.pods import pod_patch, resize
from tenancy import wellknown
from tests.support.syncer.pods import TENANT, build, pod

# --- resources ------------------------------------------------------------------------------------


def resized(own: Any, there: Any) -> Any:
    """Return the patch of one container's resources."""
    tenant_pod, twin = pod(), build(pod())
    twin["metadata"]["uid"] = "below-uid"
    tenant_pod["spec"]["containers"][0]["resources"] = own
    twin["spec"]["containers"][0]["resources"] = there
    return resize.build_patch(tenant_pod, twin)


def test_only_what_the_tenant_reports_of_resources_is_carried():
    """SEC-20: by the subresource, so that the super cluster's quota decides."""
    found = resized(
        {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}},
        {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}},
    )
    assert found == {
        "metadata": {"uid": "below-uid"},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]},
    }
    # A default of the super cluster for what the tenant left open is not fought.
    assert resized({}, {"limits": {"memory": "1Gi"}}) is None
    assert resized({"limits": {"cpu": "2"}}, {"limits": {"cpu": "2"}}) is None


def test_resources_of_the_whole_pod_are_carried_too():
    tenant_pod, twin = pod(resources={"limits": {"cpu": "2"}}), build(pod())
    twin["metadata"]["uid"] = "below-uid"
    twin["spec"]["resources"] = {"limits": {"cpu": "1"}}
    patch = resize.build_patch(tenant_pod, twin)
    assert patch is not None
    assert patch["spec"] == {"resources": {"limits": {"cpu": "2"}}}


@pytest.mark.parametrize("own", [{"requests": 3}, {"limits": ["cpu"]}, {"limits": {"cpu": {}}}])
def test_malformed_resources_are_refused(own):
    with pytest.raises(RejectedError):
        resized(own, {})


# --- containers that the super cluster injected ---------------------------------------------------

CONTAINER_LISTS = ("initContainers", "containers")
SIDECARS = ("istio-proxy", "vault-agent-init", "vc-hosts")


@pytest.mark.parametrize("kind", CONTAINER_LISTS)
@pytest.mark.parametrize("name", SIDECARS)
@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_container_that_was_injected_is_never_changed(kind, name, is_recorded):
    """SEC-50: a hostile API server names the sidecar of the super cluster in a running pod."""
    twin, tenant_pod = build(pod()), pod()
    twin["metadata"]["uid"] = "below-uid"
    injected = {"name": name, "image": "mesh:1", "resources": {"limits": {"cpu": "2"}}}
    twin["spec"][kind] = [*(twin["spec"].get(kind) or ()), injected]
    if not is_recorded:
        del twin["metadata"]["annotations"][wellknown.CONTAINERS]
    evil = {"name": name, "image": "evil:1", "resources": {"limits": {"cpu": "1m"}}}
    tenant_pod["spec"][kind] = [*(tenant_pod["spec"].get(kind) or ()), evil]
    patch = pod_patch.build_running_patch(tenant_pod, twin, TENANT)
    assert patch is None or "spec" not in patch
    assert resize.build_patch(tenant_pod, twin) is None


def test_an_image_of_the_tenants_own_container_is_synced_beside_a_sidecar():
    twin, tenant_pod = build(pod()), pod()
    twin["metadata"]["uid"] = "below-uid"
    twin["spec"]["containers"].append({"name": "istio-proxy", "image": "mesh:1"})
    tenant_pod["spec"]["containers"][0]["image"] = "own:2"
    patch = pod_patch.build_running_patch(tenant_pod, twin, TENANT)
    assert patch is not None
    assert patch["spec"] == {"containers": [{"name": "main", "image": "own:2"}]}
