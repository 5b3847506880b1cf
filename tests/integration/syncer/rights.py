"""What the syncer may do in the tests' servers: the rights of its own tables, the chart's gate.

A missing verb, or a write outside of its tenants, fails a test by that.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from kubeio import Object
from kubeio.api.client import Client
from syncer.rbac import SUPER_RBAC_RULES
from tenancy import wellknown
from tenancy.rbac import RbacRule
from tenancy.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, Resource
from tests.integration.syncer.world import HOME, SYNCER, SyncerWorld
from tests.support.helm import render


def rules_of(rows: Sequence[RbacRule]) -> list[Object]:
    return [
        {
            "apiGroups": [row.group],
            "resources": list(row.resources),
            "verbs": list(row.verbs),
            **({"resourceNames": list(row.names)} if row.names else {}),
        }
        for row in rows
    ]


async def grant(client: Client, rows: Sequence[RbacRule]) -> None:
    """Let the syncer's user do what a table says, and nothing else."""
    kind = "rbac.authorization.k8s.io"
    role = {
        "apiVersion": f"{kind}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": SYNCER},
        "rules": rules_of(rows),
    }
    binding = {
        "apiVersion": f"{kind}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": SYNCER},
        "roleRef": {"apiGroup": kind, "kind": "ClusterRole", "name": SYNCER},
        "subjects": [{"apiGroup": kind, "kind": "User", "name": SYNCER}],
    }
    await client.create(CLUSTER_ROLES, role)
    await client.create(CLUSTER_ROLE_BINDINGS, binding)


async def grant_lease(world: SyncerWorld) -> None:
    """Let the syncer have its Lease, as the chart does in the components' namespace."""
    kind = "rbac.authorization.k8s.io"
    role = {
        "apiVersion": f"{kind}/v1",
        "kind": "Role",
        "metadata": {"name": SYNCER, "namespace": HOME},
        "rules": rules_of([row for row in SUPER_RBAC_RULES if row.namespaced]),
    }
    binding = {
        "apiVersion": f"{kind}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": SYNCER, "namespace": HOME},
        "roleRef": {"apiGroup": kind, "kind": "Role", "name": SYNCER},
        "subjects": [{"apiGroup": kind, "kind": "User", "name": SYNCER}],
    }
    await world.below.apply(ROLES, role, field_manager="tests")
    await world.below.apply(ROLE_BINDINGS, binding, field_manager="tests")


async def guard(client: Client) -> None:
    """Put up the chart's gate for the syncer's user, so that a write it refuses fails here."""
    account = f"system:serviceaccount:{HOME}:{wellknown.SYNCER}"
    for body in render("--show-only", "templates/syncer-policy.yaml"):
        text = json.dumps(body)
        kind = body["kind"]
        assert kind.endswith("Binding") or account in text
        plural = f"{kind.lower()[:-1]}ies" if kind.endswith("y") else f"{kind.lower()}s"
        resource = Resource("admissionregistration.k8s.io", "v1", plural, kind, namespaced=False)
        await client.create(resource, json.loads(text.replace(account, SYNCER)))
