"""CRDs of additional networks, as tenants get them.

Pure. The files are copies of the definitions of the projects that own the kinds:
`artifacts/networks-crd.yaml` of network-attachment-definition-client v1.7.6, and `scheme.yml` of
multi-networkpolicy v1.0.1, without descriptions. Must not know policies beyond the offered kinds.
"""

from functools import cache
from importlib import resources
from typing import Any

import yaml

from tenancy.policies import TenantPolicySpec
from tenancy.resources import MULTI_NETWORK_POLICIES, NETWORK_ATTACHMENTS

_FILES = {
    NETWORK_ATTACHMENTS.kind: "network-attachment-definitions.yaml",
    MULTI_NETWORK_POLICIES.kind: "multi-networkpolicies.yaml",
}


def list_offered_kinds(policy: TenantPolicySpec) -> frozenset[str]:
    """Return the kinds of additional networks that a policy offers."""
    attachments = policy.network.attachments
    if not attachments.is_offered:
        return frozenset()
    if attachments.multi_network_policies == "Allow":
        return frozenset(_FILES)
    return frozenset({NETWORK_ATTACHMENTS.kind})


@cache
def _read_file(kind: str) -> str:
    return (resources.files(__package__) / "crds" / _FILES[kind]).read_text()


def build_crd(kind: str) -> dict[str, Any]:
    """Return the CRD of a kind."""
    found: dict[str, Any] = yaml.safe_load(_read_file(kind))
    return found
