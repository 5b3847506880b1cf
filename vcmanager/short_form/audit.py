"""Audit settings of a tenant's API server: policy file, flags and volumes.

Pure. Hazard: bodies of requests about credentials must not be recorded. Otherwise the audit log
would be a copy of all Secrets of the tenant.
"""

import json
from dataclasses import dataclass
from typing import Any

from tenancy.control_plane_specs import AuditSpec

WEBHOOK_SECRET = "audit-webhook"  # noqa: S105 - a name, not a credential
"""Secret in the root namespace with the kubeconfig of the audit webhook, key `kubeconfig`."""
WEBHOOK_KEY = "kubeconfig"
_LOG_PATH = "/var/log/kubernetes/audit/audit.log"
_PROBE_PATHS = ["/livez*", "/readyz*", "/healthz*"]
_CREDENTIAL_RESOURCES = [
    {
        "group": "",
        "resources": ["secrets", "configmaps", "serviceaccounts/token"],
    },
    {"group": "authentication.k8s.io", "resources": ["tokenreviews"]},
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """Values of the API server's template."""

    policy: str = ""
    """Content of the policy file. Empty: no audit."""
    flags: tuple[str, ...] = ()
    file_limit: str = ""
    """Size limit of the volume of the log file. Empty: no such volume."""
    has_webhook: bool = False


def build_audit(spec: AuditSpec | None) -> AuditSettings:
    """Return the settings of a ClusterVersion's `spec.audit`."""
    if spec is None:
        return AuditSettings()
    flags = ["--audit-policy-file=/etc/kubernetes/config/audit-policy.yaml"]
    file_limit = ""
    if spec.log is not None and spec.log.output == "File":
        flags += [
            f"--audit-log-path={_LOG_PATH}",
            f"--audit-log-maxsize={spec.log.max_size_mib}",
            f"--audit-log-maxbackup={spec.log.max_backups}",
        ]
        # The kubelet evicts a pod above the limit, and checks rarely: room for two more files.
        file_limit = f"{spec.log.max_size_mib * (spec.log.max_backups + 3)}Mi"
    elif spec.log is not None or spec.webhook is None:
        flags.append("--audit-log-path=-")
    if spec.webhook is not None:
        flags.append(f"--audit-webhook-config-file=/etc/kubernetes/audit-webhook/{WEBHOOK_KEY}")
    return AuditSettings(
        policy=json.dumps(_build_policy(spec), sort_keys=True),
        flags=tuple(flags),
        file_limit=file_limit,
        has_webhook=spec.webhook is not None,
    )


def _build_policy(spec: AuditSpec) -> dict[str, Any]:
    kind = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy"}
    if spec.policy is not None:
        return {**spec.policy, **kind}
    credentials = "None" if spec.level == "None" else "Metadata"
    return {
        **kind,
        "omitStages": ["RequestReceived"],
        # The first rule that matches decides.
        "rules": [
            {"level": "None", "nonResourceURLs": _PROBE_PATHS},
            {"level": credentials, "resources": _CREDENTIAL_RESOURCES},
            {"level": spec.level},
        ],
    }
