"""Checks of one tenant: from its deletion to its network policies. Pure."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta

from kubectl_vc.diagnosis.object_facts import (
    Body,
    ObjectFacts,
    SuperFacts,
    get_message,
    get_metadata,
    get_spec,
    get_status,
)
from kubectl_vc.diagnosis.tenant_layers import TENANT_LAYERS
from kubectl_vc.installation.check_table import LinkCheck, LinkState
from kubectl_vc.installation.installation_checks import find_image_problem
from kubectl_vc.installation.installation_facts import InstallationFacts, TenantControlPlane
from tenancy import conditions, wellknown

CERTIFICATE_WARNING = timedelta(days=14)
"""Time before the end of a certificate at which it is reported."""

TenantCheck = Callable[[InstallationFacts, TenantControlPlane], LinkState]


def _for_tenant(check: TenantCheck) -> Callable[[InstallationFacts], LinkState]:
    def find(facts: InstallationFacts) -> LinkState:
        if facts.tenant is None:
            raise LookupError("the check needs a tenant")
        return check(facts, facts.tenant)

    return find


def _get_condition(tenant: TenantControlPlane, kind: str) -> Body | None:
    return conditions.find_condition(get_status(tenant.virtual_cluster).get("conditions"), kind)


def _name(tenant: TenantControlPlane) -> str:
    metadata = get_metadata(tenant.virtual_cluster)
    return f"{metadata.get('name')} -n {metadata.get('namespace')}"


def _describe(tenant: TenantControlPlane) -> str:
    return f"kubectl vc get {_name(tenant)}"


def _by_layer(layer: str, good: str) -> TenantCheck:
    """Return the check that uses a row of `kubectl vc why`."""
    [row] = [each for each in TENANT_LAYERS if each.name == layer]

    def check(facts: InstallationFacts, tenant: TenantControlPlane) -> LinkState:
        found = row.find(
            ObjectFacts(
                kind="VirtualCluster",
                name="",
                now=facts.now,
                super_facts=SuperFacts(
                    virtual_cluster=tenant.virtual_cluster, super_namespace="", copy={}
                ),
            )
        )
        if found is None:
            return LinkState("ok", good)
        command = found.next_command
        if command.startswith("kubectl vc doctor"):
            command = _describe(tenant)
        return LinkState("wrong", found.sentence, command)

    return check


def _check_restore(facts: InstallationFacts, tenant: TenantControlPlane) -> LinkState:
    """Check that no restore runs. A failed restore is a note, because the tenant runs."""
    state = _by_layer("restore", "No snapshot is being restored.")(facts, tenant)
    found = get_status(tenant.virtual_cluster).get("restore") or {}
    if state.state == "ok" and found.get("phase") == "Failed":
        text = f"The last restore failed: {found.get('reason')}: {found.get('message')}"
        return LinkState("note", text, f"kubectl vc describe {_name(tenant)}")
    return state


def _check_images(_: InstallationFacts, tenant: TenantControlPlane) -> LinkState:
    found = find_image_problem(tenant.pods)
    if found is None:
        return LinkState("ok", "No pod of the control plane waits for its image.")
    return LinkState("wrong", found[1], _describe(tenant))


def _waits_for_pod(claim: Body, facts: InstallationFacts) -> bool:
    """Return whether a claim is bound only after its pod has a node. Then the pod is to blame."""
    name = get_spec(claim).get("storageClassName")
    annotations = get_metadata(claim).get("annotations") or {}
    return "volume.kubernetes.io/selected-node" not in annotations and any(
        get_metadata(each).get("name") == name
        and each.get("volumeBindingMode") == "WaitForFirstConsumer"
        for each in facts.storage_classes or ()
    )


def _check_volumes(facts: InstallationFacts, tenant: TenantControlPlane) -> LinkState:
    for claim in tenant.claims or ():
        phase = get_status(claim).get("phase")
        if phase != "Bound" and not _waits_for_pod(claim, facts):
            metadata = get_metadata(claim)
            return LinkState(
                "wrong",
                f"The volume claim {metadata.get('name')} of the control plane is {phase}.",
                f"kubectl -n {metadata.get('namespace')} describe persistentvolumeclaim"
                f" {metadata.get('name')}",
            )
    return LinkState("ok", "No volume of the control plane lacks a provisioner.")


def _check_certificates(facts: InstallationFacts, tenant: TenantControlPlane) -> LinkState:
    command = f"kubectl vc certs list {_name(tenant)}"
    if not tenant.certificates:
        return LinkState("note", "There is no table of certificates yet.", command)
    try:
        rows = json.loads((tenant.certificates[0].get("data") or {})[wellknown.CERTIFICATES_KEY])
        ends = sorted((datetime.fromisoformat(row["expires"]), str(row["name"])) for row in rows)
        left = [(end - facts.now, name) for end, name in ends]
    except (KeyError, TypeError, ValueError):
        return LinkState("wrong", "The table of certificates cannot be read.", command)
    if not left:
        return LinkState("note", "The table of certificates is empty.", command)
    first, name = left[0]
    if first <= timedelta():
        return LinkState("wrong", f"The certificate {name} has expired.", command)
    if first < CERTIFICATE_WARNING:
        return LinkState("note", f"The certificate {name} ends in {first.days} days.", command)
    return LinkState("ok", f"The first certificate, {name}, ends in {first.days} days.")


def _check_component(kind: str) -> TenantCheck:
    def check(_: InstallationFacts, tenant: TenantControlPlane) -> LinkState:
        found = _get_condition(tenant, kind)
        if found is None:
            return LinkState("wrong", f"The condition {kind} is missing.", _describe(tenant))
        if found.get("status") != "True":
            text = f"{found.get('reason')}: {get_message(found)}"
            return LinkState("wrong", text, _describe(tenant))
        return LinkState("ok", get_message(found) or "It is ready.")

    return check


def _check_dns(facts: InstallationFacts, tenant: TenantControlPlane) -> LinkState:
    mode = get_spec(tenant.virtual_cluster).get("dns", "managed")
    if mode != "managed":
        return LinkState("ok", f"The tenant has no managed DNS (spec.dns: {mode}).")
    return _check_component(wellknown.DNS_READY)(facts, tenant)


def _check_bad_condition(kind: str, good: str, command: str = "") -> TenantCheck:
    """Return the check of a condition that must not be True."""

    def check(_: InstallationFacts, tenant: TenantControlPlane) -> LinkState:
        found = _get_condition(tenant, kind)
        if found is not None and found.get("status") == "True":
            return LinkState("wrong", get_message(found), command or _describe(tenant))
        return LinkState("ok", good)

    return check


def _check_good_condition(kind: str, good: str, *, is_note: bool = False) -> TenantCheck:
    """Return the check of a condition that must not be False."""

    def check(_: InstallationFacts, tenant: TenantControlPlane) -> LinkState:
        found = _get_condition(tenant, kind)
        if found is not None and found.get("status") == "False":
            return LinkState("note" if is_note else "wrong", get_message(found), _describe(tenant))
        return LinkState("ok", good)

    return check


def _check_policy(facts: InstallationFacts, tenant: TenantControlPlane) -> LinkState:
    reference = get_spec(tenant.virtual_cluster).get("policyRef") or {}
    name = reference.get("name") or wellknown.DEFAULT_POLICY_NAME
    present = {str(get_metadata(each).get("name")) for each in facts.tenant_policies or ()}
    if name in present:
        return LinkState("ok", f"The TenantPolicy {name} exists.")
    if name == wellknown.DEFAULT_POLICY_NAME:
        return LinkState("ok", f"The built-in policy {name} applies.")
    return LinkState(
        "wrong",
        f"The TenantPolicy {name}, which spec.policyRef names, does not exist.",
        "kubectl get tenantpolicies",
    )


TENANT_CHECKS: tuple[LinkCheck, ...] = tuple(
    LinkCheck(name, needs, _for_tenant(check))
    for name, needs, check in (
        ("deletion", (), _by_layer("deletion", "The tenant is not being deleted.")),
        ("restore", (), _check_restore),
        ("tenant-images", ("tenant.pods",), _check_images),
        ("tenant-volumes", ("tenant.claims",), _check_volumes),
        (
            "authorities",
            (),
            _check_good_condition(wellknown.CERTIFICATES_READY, "All authorities can be used."),
        ),
        ("certificates", ("tenant.certificates",), _check_certificates),
        ("etcd", (), _check_component(wellknown.ETCD_READY)),
        ("etcd-members", (), _check_good_condition(wellknown.ETCD_MEMBERS_READY, "All answer.")),
        ("etcd-size", (), _check_bad_condition(wellknown.STORE_FILLING, "etcd has space.")),
        ("apiserver", (), _check_component(wellknown.API_SERVER_READY)),
        ("controller-manager", (), _check_component(wellknown.CONTROLLER_MANAGER_READY)),
        (
            "authentication",
            (),
            _check_good_condition(
                wellknown.AUTHENTICATION_READY, "spec.auth is in use, or absent."
            ),
        ),
        ("dns", (), _check_dns),
        (
            "metrics",
            (),
            _check_good_condition(
                wellknown.METRICS_READY, "The metrics API answers, or is off.", is_note=True
            ),
        ),
        (
            "kubeconfig-secrets",
            (),
            _check_good_condition(
                wellknown.KUBECONFIG_SECRETS_READY, "All of them exist.", is_note=True
            ),
        ),
        ("policy", ("tenant_policies",), _check_policy),
        ("paused", (), _by_layer("paused", "The tenant is not paused.")),
        ("sync", (), _by_layer("sync", "The syncer syncs the tenant.")),
        ("deletes", (), _check_bad_condition(wellknown.DELETES_HELD, "Deletes are not held.")),
        ("grants", (), _check_good_condition(wellknown.TARGETS_GRANTED, "All targets exist.")),
        (
            "network",
            (),
            _check_good_condition(
                wellknown.NETWORK_POLICIES_ENFORCED, "No probe reports a hole.", is_note=True
            ),
        ),
        # The last one, because each link before it is nearer to the cause.
        ("ready", (), _check_good_condition(wellknown.READY, "vc-manager is done.")),
    )
)
"""Each link needs the links before it."""
