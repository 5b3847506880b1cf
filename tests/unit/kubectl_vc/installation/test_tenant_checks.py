"""`kubectl vc doctor NAME`: seeded faults of one tenant, and the link that is named first."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from kubectl_vc.installation import doctor
from kubectl_vc.installation.check_table import run_checks
from kubectl_vc.installation.installation_facts import TenantControlPlane
from kubectl_vc.installation.tenant_checks import TENANT_CHECKS
from tenancy import wellknown
from tests.support.kubectl_vc.installation_faults import SOUND, named
from tests.support.kubectl_vc.object_faults import NOW, ago, claim, condition, virtual_cluster
from tests.support.kubectl_vc.object_faults import waiting as waits


def table(days: float) -> dict:
    """Return the ConfigMap with the certificates, the first of which ends in some days."""
    rows = [
        {"name": name, "expires": (NOW + timedelta(days=end)).isoformat()}
        for name, end in (("etcd-ca", 900), ("apiserver", days))
    ]
    return {**named("vc-certificates"), "data": {wellknown.CERTIFICATES_KEY: json.dumps(rows)}}


def tenant(*changed: dict, spec=(), annotations=(), metadata=(), **parts) -> TenantControlPlane:
    """Return the facts about a tenant in which everything works, with some changed."""
    body = virtual_cluster(*changed, spec=spec, annotations=annotations, **dict(metadata))
    values = {"virtual_cluster": body, "certificates": [table(60)], "claims": [claim("a", "Bound")]}
    return TenantControlPlane(**values | parts)


def broken(kind: str, reason: str = "Failed") -> TenantControlPlane:
    """Return a tenant with one condition that is False."""
    return tenant(condition(kind, "False", reason, "said"))


IMAGE = {
    "metadata": {"name": "etcd-0"},
    "status": {"containerStatuses": [waits("ErrImagePull")]},
}


def waiting_claim(**annotations: str) -> dict:
    """Return a claim that is bound once its pod has a node."""
    found = claim("data-etcd-0")
    found["metadata"]["annotations"] = annotations
    return found | {"spec": {"storageClassName": "late"}}


FAULTS = {
    "deleted": (tenant(metadata={"deletionTimestamp": ago(9)}), "deletion"),
    "scheduled for deletion": (
        tenant(annotations={wellknown.DELETE_AFTER: ago(-9)}),
        "deletion",
    ),
    "restored": (tenant(annotations={wellknown.RESTORE_SNAPSHOT: "a@b"}), "restore"),
    "image missing": (
        tenant(condition(wellknown.ETCD_READY, "False"), pods=[IMAGE]),
        "tenant-images",
    ),
    "volume unbound": (
        tenant(condition(wellknown.ETCD_READY, "False"), claims=[claim("data-etcd-0")]),
        "tenant-volumes",
    ),
    "authority broken": (broken(wellknown.CERTIFICATES_READY), "authorities"),
    "version refused": (broken(wellknown.READY, "VersionSkew"), "ready"),
    "certificate expired": (tenant(certificates=[table(-1)]), "certificates"),
    "certificates unreadable": (tenant(certificates=[named("vc-certificates")]), "certificates"),
    "etcd down": (broken(wellknown.ETCD_READY), "etcd"),
    "etcd member lost": (broken(wellknown.ETCD_MEMBERS_READY), "etcd-members"),
    "etcd full": (tenant(condition(wellknown.STORE_FILLING, "True", "Full", "said")), "etcd-size"),
    "API server down": (broken(wellknown.API_SERVER_READY), "apiserver"),
    "controllers down": (broken(wellknown.CONTROLLER_MANAGER_READY), "controller-manager"),
    "DNS down": (broken(wellknown.DNS_READY), "dns"),
    "sign-on refused": (broken(wellknown.AUTHENTICATION_READY), "authentication"),
    "no node for etcd, whose claim waits": (
        tenant(
            condition(wellknown.ETCD_READY, "False", "FailedScheduling"), claims=[waiting_claim()]
        ),
        "etcd",
    ),
    "claim whose node was chosen": (
        tenant(claims=[waiting_claim(**{"volume.kubernetes.io/selected-node": "n"})]),
        "tenant-volumes",
    ),
    "policy missing": (tenant(spec={"policyRef": {"name": "gone"}}), "policy"),
    "suspended": (tenant(spec={"suspend": True}), "paused"),
    "not synced": (broken(wellknown.SYNCED, "TenantUnreachable"), "sync"),
    "deletes held": (
        tenant(condition(wellknown.DELETES_HELD, "True", "StoreChanged", "said")),
        "deletes",
    ),
    "target unknown": (broken(wellknown.TARGETS_GRANTED, "NoSuchTarget"), "grants"),
}


def check(found: TenantControlPlane):
    """Return the results for one tenant."""
    late = {**named("late"), "volumeBindingMode": "WaitForFirstConsumer"}
    facts = replace(SOUND, tenant=found, storage_classes=[*SOUND.storage_classes, late])
    return run_checks(facts, TENANT_CHECKS)


def test_sound_tenant_has_no_broken_link():
    assert {each.state for each in check(tenant())} == {"ok"}


@pytest.mark.parametrize("name", FAULTS)
def test_broken_link_is_named_first(name):
    found, link = FAULTS[name]
    first = doctor.find_broken_link(check(found))
    assert first is not None
    assert first.check == link
    assert first.message
    assert first.next_command


@pytest.mark.parametrize(
    ("found", "link", "state"),
    [
        (tenant(certificates=[table(7)]), "certificates", "note"),
        (tenant(certificates=[]), "certificates", "note"),
        (tenant(certificates=None), "certificates", "unknown"),
        (tenant(pods=None), "tenant-images", "unknown"),
        (broken(wellknown.NETWORK_POLICIES_ENFORCED), "network", "note"),
        (broken(wellknown.METRICS_READY), "metrics", "note"),
        (broken(wellknown.KUBECONFIG_SECRETS_READY), "kubeconfig-secrets", "note"),
        (tenant(condition(wellknown.DNS_READY, "False"), spec={"dns": "none"}), "dns", "ok"),
    ],
)
def test_other_states(found, link, state):
    seen = {each.check: each.state for each in check(found)}
    assert seen[link] == state
    assert "wrong" not in seen.values()
