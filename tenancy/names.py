"""Names of super-cluster objects. No other module builds a prefix.

A name shows where to search for an object. Ownership shows its owner (`tenancy.ownership`). No code
parses these names.
"""

import base64
import hashlib
import re

MAX_LABEL = 63
"""Longest DNS label, and so the longest namespace (RFC 1123)."""

MAX_NAMESPACE_AND_NAME = 55
"""Longest namespace and name of a VirtualCluster together: 63 less two hyphens and 6 hex."""

TENANT_ROOT_CA = "kube-root-ca.crt"
"""ConfigMap with the API server's CA that Kubernetes publishes into every namespace."""

SUPER_ROOT_CA = "tenant-kube-root-ca.crt"
"""Name of the tenant's root CA. The super cluster publishes its own under the usual name."""

WORKLOAD_ACCOUNT = "vc-workload"
"""ServiceAccount without permissions in each super namespace. All tenant pods run as it."""

TOKEN_SECRET_PREFIX = "vc-token-"  # noqa: S105 - a name, not a credential
"""Reserved prefix of the Secrets with tenant tokens for super pods."""

SERVICE_VARIABLES = "vc-service-variables"
"""ConfigMap with the variables of a namespace's Services, for pods with service links."""

API_VARIABLES = "vc-api-variables"
"""ConfigMap with the variables of the tenant's API only, for pods without service links."""

QUOTA = "vc-quota"
"""ResourceQuota and LimitRange in each super namespace, and ConfigMap in a tenant that shows the
quota."""

QUOTA_REPORT = ("kube-public", QUOTA)
"""Namespace and name of that ConfigMap."""

ISOLATION_POLICY = "vc-isolation"
"""NetworkPolicy of each super namespace that selects all pods and allows the control plane only."""

DEFAULT_INGRESS_POLICY = "vc-default-ingress"
"""NetworkPolicy for pods that no policy of the tenant selects for ingress."""

DEFAULT_EGRESS_POLICY = "vc-default-egress"
"""NetworkPolicy for pods that no policy of the tenant selects for egress."""

DEFAULT_POLICIES = (ISOLATION_POLICY, DEFAULT_INGRESS_POLICY, DEFAULT_EGRESS_POLICY)
"""Reserved names of the syncer's NetworkPolicies in a super namespace."""

PRIMARY_NETWORK = "vc-network"
"""Reserved name of the NetworkAttachmentDefinition of a tenant's own network (`spec.network`)."""

VOLUME_PREFIX = "vc-volume-"
"""Prefix of the twins of volumes that tenants wrote, before a digest."""

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_MAX_READABLE_CHARACTERS = 46  # MAX_LABEL less a hyphen and the 16 characters of the digest


class InvalidNameError(ValueError):
    """A name cannot be used. The message has the name, the reason and the remedy."""


def describe_label_rule(limit: int = MAX_LABEL) -> str:
    """Return the rule of `is_dns_label` for people, with `limit` as the longest name."""
    return (
        f"at most {limit} lower-case letters, digits and hyphens, beginning and ending with a"
        " letter or digit"
    )


def is_dns_label(text: str) -> bool:
    """Return whether `text` is a DNS label, as Kubernetes requires for namespaces (RFC 1123)."""
    return _DNS_LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """Return whether objects of most kinds can have this name (RFC 1123)."""
    return _DNS_SUBDOMAIN.fullmatch(text) is not None


def is_uid(text: str) -> bool:
    """Return whether `text` has the form in which API servers write `metadata.uid` (RFC 4122)."""
    return _UID.fullmatch(text) is not None


def shorten_uid(vc_uid: str) -> str:
    """Return the UID's digest in the root namespace's name.

    It informs people and proves nothing.
    """
    return hashlib.sha256(vc_uid.encode()).hexdigest()[:6]


def build_root_namespace(vc_namespace: str, vc_name: str, vc_uid: str) -> str:
    """Return the root namespace, also called the key: `<ns>-<6 hex of sha256(uid)>-<name>`.

    Raises NameProblemError if the name is no DNS label or if namespace and name are too long
    together.
    """
    if not is_dns_label(vc_name):
        raise InvalidNameError(
            f"the name {vc_name!r} of the VirtualCluster is not a DNS label. Use"
            f" {describe_label_rule()}"
        )
    length = len(vc_namespace) + len(vc_name)
    if length > MAX_NAMESPACE_AND_NAME:
        raise InvalidNameError(
            f"namespace {vc_namespace!r} and name {vc_name!r} have {length} characters together,"
            f" and the limit is {MAX_NAMESPACE_AND_NAME}. Shorten the name by"
            f" {length - MAX_NAMESPACE_AND_NAME}"
        )
    digest = shorten_uid(vc_uid)
    return f"{vc_namespace}-{digest}-{vc_name}"


def build_super_namespace(root: str, vc_uid: str, tenant_namespace: str) -> str:
    """Return the super namespace of a tenant namespace.

    The name is `<root>-<namespace>` if it fits into 63 characters. A longer name is cut to its
    first 46 characters and gets 80 bits of a digest. The digest covers the length-prefixed pair
    (UID of the VirtualCluster, tenant namespace), so no tenant can produce another tenant's name.
    """
    joined = f"{root}-{tenant_namespace}"
    if len(joined) <= MAX_LABEL:
        return joined
    readable = joined[:_MAX_READABLE_CHARACTERS].rstrip("-")
    return f"{readable}-{_compute_digest(vc_uid, tenant_namespace)}"


def build_token_secret_name(
    account_uid: str, audience: str, lifetime_seconds: int, bound_to: str = ""
) -> str:
    """Return the name of the Secret with one kind of token of a tenant ServiceAccount.

    `bound_to` is the UID of the pod that a token with a foreign audience is bound to, else empty.
    """
    parts = (account_uid, audience, str(lifetime_seconds), bound_to)
    return TOKEN_SECRET_PREFIX + _compute_digest(*parts)


def build_volume_name(vc_uid: str, tenant_name: str) -> str:
    """Return the name of the twin of a tenant's volume. No tenant can produce another's name."""
    return VOLUME_PREFIX + _compute_digest(vc_uid, tenant_name)


def _compute_digest(*parts: str) -> str:
    spelled = "".join(f"{len(part)}:{part}" for part in parts)
    return base64.b32encode(hashlib.sha256(spelled.encode()).digest()).decode()[:16].lower()
