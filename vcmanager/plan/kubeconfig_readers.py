"""RoleBinding of the users who may fetch a tenant's admin kubeconfig. Pure.

Hazard: the binding must name the one role that gets the Secret of the admin kubeconfig. A wider
role would open the private keys of the tenant's authorities, which are in the same namespace.
"""

from tenancy import wellknown
from tenancy.resources import ROLE_BINDINGS
from tenancy.specs import VirtualClusterSpec
from vcmanager.plan.control_plane import Manifest

BINDING = "vc-kubeconfig-readers"
"""Name of the RoleBinding in the root namespace."""


def build_role_bindings(spec: VirtualClusterSpec) -> list[Manifest]:
    """Return the RoleBinding for `spec.kubeconfigReaders`, or nothing for an empty list."""
    if not spec.kubeconfig_readers:
        return []
    group = ROLE_BINDINGS.group
    role = {"apiGroup": group, "kind": "ClusterRole", "name": wellknown.KUBECONFIG_READER_ROLE}
    subjects = [
        {"apiGroup": group, "kind": reader.kind, "name": reader.name}
        for reader in spec.kubeconfig_readers
    ]
    return [
        {
            "apiVersion": ROLE_BINDINGS.api_version,
            "kind": ROLE_BINDINGS.kind,
            "metadata": {"name": BINDING},
            "roleRef": role,
            "subjects": subjects,
        }
    ]
