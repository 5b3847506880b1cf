"""Bad values that a schema takes, and the program of ours that refuses each one.

A unit test runs each row through `find_refusal`. A test with a real API server proves that the
schema takes the value, so that a program must judge it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kubeio import Object
from tenancy import policies, super_clusters
from tenancy.snapshots import view
from tenancy.snapshots.view import InvalidSnapshotError
from tenancy.specs import InvalidSpecError, parse_cluster_version
from tenancy.sync_rules.checks import find_problem
from tenancy.sync_rules.specs import parse_sync_rule
from tests.support.bad_fields.rows import BadField
from tests.support.vcmanager.factories import wish
from vcmanager.phases import validation
from vcmanager.plan.access import authentication_rules
from vcmanager.plan.network import dns_forwarding
from vcmanager.plan.network.dns_forwarding import AddressRules
from vcmanager.runtime.blocked import PhaseBlocked

_SUPER_RANGE = ipaddress.ip_network("10.96.0.0/12")
_UNKNOWN_FLAG = "Write flags without leading dashes, for example event-ttl"
_NO_QUANTITY = "is not a quantity. Write for example 500m or 2Gi"
_NO_PATH = "is no field path. Use names with dots in between, [] after a list"
_COMPONENTS = ("etcd", "apiServer", "controllerManager", "dns", "metricsServer")
_BUNDLE_NAMES = {
    "etcd": "etcd",
    "apiServer": "apiserver",
    "controllerManager": "controller-manager",
}
_TOKEN = "spec.auth.jwt[]"


def _judge_cluster_version(body: Object) -> str:
    version = parse_cluster_version(body)
    try:
        validation.check_plan(wish(version=version), _SUPER_RANGE)
    except PhaseBlocked as refusal:
        return refusal.message
    return ""


def _judge_super_cluster(body: Object) -> str:
    super_clusters.parse_spec(body)
    return ""


def _judge_sync_rule(body: Object) -> str:
    problem = find_problem(parse_sync_rule(body))
    return problem.message if problem is not None else ""


def _judge_tenant_policy(body: Object) -> str:
    policies.parse_tenant_policy(body)
    return ""


def _judge_virtual_cluster(body: Object) -> str:
    try:
        cluster = validation.parse_cluster(body)
        request = replace(wish(), tenant=cluster.tenant, spec=cluster.spec)
        validation.check_plan(request, _SUPER_RANGE)
    except PhaseBlocked as refusal:
        return refusal.message
    found: list[str] = []
    if cluster.spec.auth is not None:
        own_issuer = f"https://kubernetes.default.svc.{cluster.spec.cluster_domain}"
        found += authentication_rules.list_problems(cluster.spec.auth, own_issuer=own_issuer)
    if cluster.spec.dns_config is not None:
        forwarding = dns_forwarding.decide_forwarding(
            cluster.spec.dns_config,
            cluster_domain=cluster.spec.cluster_domain,
            rules=AddressRules(),
        )
        found += forwarding.problems
    return " ".join(found)


def _judge_snapshot(body: Object) -> str:
    view.parse_snapshot(body)
    return ""


_JUDGES: Mapping[str, Callable[[Object], str]] = {
    "ClusterVersion": _judge_cluster_version,
    "SuperCluster": _judge_super_cluster,
    "SyncRule": _judge_sync_rule,
    "TenantPolicy": _judge_tenant_policy,
    "VirtualCluster": _judge_virtual_cluster,
    "VirtualClusterSnapshot": _judge_snapshot,
}


def find_refusal(kind: str, spec: Mapping[str, Any]) -> str:
    """Return the sentence with which our programs refuse a spec. Empty if they take it."""
    metadata = {"name": "c2", "namespace": "default", "uid": "u", "generation": 1}
    try:
        return _JUDGES[kind]({"metadata": metadata, "spec": spec})
    except (InvalidSpecError, InvalidSnapshotError) as problem:
        return str(problem)


CODE_ROWS: tuple[BadField, ...] = (
    # ClusterVersion
    BadField("ClusterVersion", "spec.kubernetesVersion", "1.99", "Known minors are"),
    *(
        BadField("ClusterVersion", f"spec.extraArgs.{part}{{key}}", flag, sentence)
        for part in ("etcd", "apiServer", "controllerManager")
        for flag, sentence in (
            ("--v", _UNKNOWN_FLAG),
            (
                {"etcd": "data-dir", "apiServer": "etcd-servers"}.get(part, "kubeconfig"),
                "which vc-manager sets for each tenant. Remove it",
            ),
        )
    ),
    BadField(
        "ClusterVersion",
        "spec.extraArgs.apiServer{key}",
        "oidc-issuer-url",
        "Use spec.auth of the VirtualCluster instead",
    ),
    *(
        BadField("ClusterVersion", f"spec.resources.{part}.{field}{{}}", value, _NO_QUANTITY)
        for part in _COMPONENTS
        for field in ("requests", "limits")
        for value in ("much", "-1")
    ),
    *(
        BadField(
            "ClusterVersion",
            f"spec.resources.{part}",
            {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
            "Raise the limit or lower the request",
        )
        for part in _COMPONENTS
    ),
    *(
        BadField(
            "ClusterVersion",
            f"spec.{part}.{field}",
            {"apiVersion": "v1", "kind": "Nonsense"},
            f"{part}.{field} must have apiVersion {version} and kind {kind}",
        )
        for part in _BUNDLE_NAMES
        for field, version, kind in (
            ("statefulset", "apps/v1", "StatefulSet"),
            ("service", "v1", "Service"),
        )
    ),
    # SyncRule
    *(
        BadField("SyncRule", "spec.resource.group", group, sentence)
        for group, sentence in (
            ("apps", "no kind of apps may be synced, because its objects create pods"),
            ("policy", "Use the fields of a TenantPolicy instead"),
        )
    ),
    BadField("SyncRule", "spec.resource.kind", "Secret", "a kind that the syncer uses itself"),
    *(
        BadField("SyncRule", path, value, sentence)
        for path in ("spec.fields[]", "spec.hostnames[]", "spec.references[].path")
        for value, sentence in (
            ("a b", _NO_PATH),
            ("metadata.labels", "must not pass, because the syncer builds the metadata itself"),
            ("spec.containers[].image", "must not pass, because containers would run code or"),
        )
    ),
    BadField("SyncRule", "spec.fields[]", ".".join("a" * 17), "Name a shorter path"),
    BadField("SyncRule", "spec.fields", ["spec.a", "spec.a.b"], "contradicts another path"),
    BadField("SyncRule", "spec.references[].kinds[]", "Gadget", "which has no SyncRule. Create"),
    *(
        BadField("SyncRule", path, value, sentence)
        for path in ("spec.statusFields[]", "spec.statusReferences[]")
        for value, sentence in (
            ("a b", _NO_PATH),
            ("spec.size", "is not in the status. Move it to spec.fields"),
        )
    ),
    BadField("SyncRule", "spec.mirrorOwner.path", "a b", _NO_PATH),
    # TenantPolicy
    BadField("TenantPolicy", "spec.quota{key}", "podz", "which is no resource of a quota. See"),
    BadField(
        "TenantPolicy", "spec.network.attachments.devices[].vlans[]", "5000", "Write a number up to"
    ),
    BadField(
        "TenantPolicy",
        "spec.network.attachments.devices[].tenantVlans",
        "0-9",
        "tenantVlans must not contain 0. Begin with 1 or more",
    ),
    BadField(
        "TenantPolicy",
        "spec.network.attachments.devices[].ranges",
        ["10.100.0.0/16", "10.100.1.0/24"],
        "overlaps another one. Keep one of them",
    ),
    BadField(
        "TenantPolicy",
        "spec.network.attachments.primaryDevice",
        "br-shared",
        "is no device with tenantVlans. Name one that has them",
    ),
    BadField(
        "TenantPolicy",
        "spec.network.attachments.types",
        ["vlan"],
        "primaryDevice needs the type bridge. Add it to types",
    ),
    # VirtualCluster
    *(
        BadField("VirtualCluster", "spec.serviceCidr", *row)
        for row in (
            ("192.168.0.0/22", "Choose a range inside it, or leave the field out"),
            ("10.96.0.0/31", "is too small. A tenant needs at least"),
            ("10.96.0.0/12", "is too large. A tenant can have at most"),
        )
    ),
    *(
        BadField("VirtualCluster", f"spec.dnsConfig.{field}", value, sentence)
        for field in ("stubDomains[].servers[]", "forwarders[]")
        for value, sentence in (
            ("1.2.3", "is not an IP address, or an IP address with a port. Correct it"),
            ("8.8.8.8:99", "has a port that network policies close. Use one of"),
            ("10.0.0.1", "is a private address. Use another one, or ask your platform"),
        )
    ),
    BadField(
        "VirtualCluster",
        "spec.dnsConfig.stubDomains[].domain",
        "svc.tenant.example",
        "would hide names of tenant.example, the cluster domain. Use another domain",
    ),
    *(
        BadField("VirtualCluster", f"{_TOKEN}.{field}", value, sentence)
        for field, value, sentence in (
            ("issuer.url", "https://a@b", "must begin with https:// and have a host, and neither"),
            ("issuer.discoveryURL", "https://login.example.com", "is the same as url. Remove it"),
            ("issuer.certificateAuthority", "ca", "is no certificate in PEM. Paste the whole file"),
            ("issuer.audiences", ["shop", "shop"], "an audience is named twice. Keep one of them"),
            (
                "issuer",
                {"url": "https://login.example.com", "audiences": ["shop", "web"]},
                "several audiences need MatchAny. Set it",
            ),
            ("claimValidationRules[].claim", "", "set either claim or expression"),
            (
                "claimValidationRules[]",
                {"expression": "claims.a == 'b'", "requiredValue": "b"},
                "requiredValue: it goes with claim only. Remove it",
            ),
            (
                "claimValidationRules[]",
                {"claim": "team", "message": "another team"},
                "message: it goes with expression only. Remove it",
            ),
            ("claimMappings.username", {}, "username: set either claim or expression"),
            ("claimMappings.username.claim", "", "username: set either claim or expression"),
            ("claimMappings.username.prefix", "system:", "is reserved, as all names with"),
            ("claimMappings.groups", {"claim": "groups"}, "Set it, for example to oidc:"),
            (
                "claimMappings.groups",
                {"claim": "groups", "expression": "claims.groups"},
                "groups: set either claim or expression",
            ),
            ("claimMappings.groups.prefix", "tenancy:", "is reserved, as all names with"),
            (
                "claimMappings.uid",
                {"claim": "sub", "expression": "claims.sub"},
                "uid: set either claim or expression",
            ),
            ("claimMappings.extra[].key", "Team", "that is not Kubernetes' own. Rename it"),
            ("claimMappings.extra[].key", "k8s.io/team", "that is not Kubernetes' own. Rename it"),
            (
                "claimMappings.username.expression",
                "claims.email",
                "claims.email needs claims.email_verified in a rule. Add such a rule",
            ),
        )
    ),
)
