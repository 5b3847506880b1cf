"""Certificates in the tenant's hand: list, renew, short-lived kubeconfigs, and their revocation."""

import json
import time
from pathlib import Path

import pytest

from tests.node.conftest import SuperClusterAdmin, TenantAdmin
from tests.support.kubectl import KubectlRunner, until

pytestmark = [pytest.mark.node, pytest.mark.timeout(600)]

OWN = "--kubeconfig"


def own_file(tenant: TenantAdmin) -> str:
    return str(tenant.kubectl.kubeconfig)


def rows(tenant: TenantAdmin) -> dict[str, dict[str, str]]:
    table = json.loads(
        tenant.kubectl.run("vc", "certs", "list", OWN, own_file(tenant), "-o", "json")
    )
    return {each["name"]: each for each in json.loads(table["data"]["certificates.json"])}


def test_both_admins_list_the_same_certificates(
    super_cluster: SuperClusterAdmin, tenant_a: TenantAdmin
):
    above = tenant_a.kubectl.run("vc", "certs", "list", OWN, own_file(tenant_a), "-o", "name")
    below = super_cluster.kubectl.run("vc", "certs", "list", tenant_a.name, "-o", "name")
    assert above == below
    assert "apiserver-ca" in above.split()


def test_kubeconfig_with_a_role_is_limited_and_revoked_within_ten_seconds(
    tenant_a: TenantAdmin, tmp_path: Path
):
    guest_file = tmp_path / "guest"
    user = tenant_a.kubectl
    made = user.call(
        *("vc", "kubeconfig", OWN, own_file(tenant_a), "--role", "view", "--ttl", "15m"),
        *("-o", str(guest_file)),
    )
    assert made.code == 0, made.err
    name = next(word for word in made.err.split() if word.startswith("vc-kubeconfig:view:"))
    guest = KubectlRunner(kubeconfig=guest_file, path=user.path)
    until(lambda: guest.call("get", "pods").code == 0, "the guest may read")
    refused = guest.call("create", "configmap", "x")
    assert "forbidden" in refused.err
    user.run("vc", "kubeconfig", OWN, own_file(tenant_a), "--revoke", name.rstrip("."))
    begun = time.monotonic()
    until(lambda: "forbidden" in guest.call("get", "pods").err, "the guest is refused")
    assert time.monotonic() - begun < 10


def test_tenant_renews_its_own_kubeconfig(tenant_a: TenantAdmin, tmp_path: Path):
    copy = tmp_path / "kubeconfig"
    copy.write_bytes(tenant_a.kubectl.kubeconfig.read_bytes())
    tenant_a.kubectl.run("vc", "kubeconfig", "--renew", str(copy))
    assert copy.read_bytes() != tenant_a.kubectl.kubeconfig.read_bytes()
    renewed = KubectlRunner(kubeconfig=copy, path=tenant_a.kubectl.path)
    assert "yes" in renewed.run("auth", "can-i", "*", "*")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_tenant_renews_all_certificates_with_its_own_kubeconfig(tenant_a: TenantAdmin):
    before = rows(tenant_a)
    tenant_a.kubectl.run(
        *("vc", "certs", "renew", OWN, own_file(tenant_a), "--timeout", "15m"), timeout=1000
    )
    after = rows(tenant_a)
    assert set(after) == set(before)
    for name, row in after.items():
        is_authority = row["kind"] == "authority"
        assert (row["issued"] == before[name]["issued"]) is is_authority, name
