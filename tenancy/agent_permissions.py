"""Document of the kubelet calls that each tenant may make. vc-manager writes it for node agents.

Owns the form of the document, so that the writer and its readers agree. Pure. Must not know how a
policy is written or a call answered.

Hazard: readers must never fill in missing data. A tenant or a policy that is not in the document
has no calls, and an incomplete document is invalid.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

DOCUMENT_KEY = "access.json"
"""Key of the ConfigMap `wellknown.AGENT_ACCESS`."""
BUILT_IN_POLICY = ""
"""Name for the policy of tenants that name none, if the object `baseline` does not exist."""


class KubeletCall(StrEnum):
    """A kind of kubelet call, spelled as the switch in `TenantPolicy.spec.access`."""

    LOGS = "logs"
    EXEC = "exec"
    ATTACH = "attach"
    PORT_FORWARD = "portForward"


class InvalidAgentPermissionsError(ValueError):
    """A document cannot be read. The message has the reason."""


@dataclass(frozen=True, slots=True)
class AgentPermissions:
    """The calls of every policy, and the policy of every tenant."""

    policies: Mapping[str, frozenset[KubeletCall]]
    """Calls by policy name. A policy that is missing or cannot be read has no entry."""
    tenants: Mapping[str, str]
    """Name of the policy that binds a tenant, by UID of the VirtualCluster."""


def encode_permissions(switches: AgentPermissions) -> str:
    """Return the document. Equal switches produce equal text."""
    policies = {name: sorted(calls) for name, calls in switches.policies.items()}
    whole = {"policies": policies, "tenants": dict(switches.tenants)}
    return json.dumps(whole, sort_keys=True, separators=(",", ":"))


def decode_permissions(document: str) -> AgentPermissions:
    """Parse a document. Raises SwitchesProblemError."""
    try:
        whole = json.loads(document)
        policies, tenants = whole["policies"].items(), whole["tenants"].items()
        found = AgentPermissions(
            {name: _parse_calls(calls) for name, calls in policies}, dict(tenants)
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InvalidAgentPermissionsError(
            f"{DOCUMENT_KEY} was not written by vc-manager"
        ) from error
    if not all(isinstance(name, str) for name in found.tenants.values()):
        raise InvalidAgentPermissionsError(f"{DOCUMENT_KEY} has a tenant key that is not a name")
    return found


def _parse_calls(names: object) -> frozenset[KubeletCall]:
    """Return the calls of a list.

    Calls of a later version are ignored, as no agent answers them.
    """
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TypeError("calls are a list of names")
    return frozenset(KubeletCall(name) for name in names if name in set(KubeletCall))
