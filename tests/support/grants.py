"""Rights in a cluster: a role with the rows of a table, and its binding to a user or an account.

A missing verb, or a write outside of the table, fails a test by that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from kubeio import Object
from kubeio.api.client import Client
from syncer.rbac import (
    CREDENTIAL_RBAC_RULES,
    NAMESPACE_RBAC_RULES,
    SUPER_RBAC_RULES,
    TARGET_RBAC_RULES,
)
from tenancy import wellknown
from tenancy.rbac import RbacRule
from tenancy.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, Resource
from tests.support.helm import NAMESPACE, render

_GROUP = "rbac.authorization.k8s.io"
_RESOURCES = {
    resource.kind: resource
    for resource in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLES, ROLE_BINDINGS)
}


def build_rules(rows: Iterable[RbacRule]) -> list[Object]:
    """Return the rules of a role."""
    return [
        {
            "apiGroups": [row.group],
            "resources": list(row.resources),
            "verbs": list(row.verbs),
            **({"resourceNames": list(row.names)} if row.names else {}),
        }
        for row in rows
    ]


def build_user(name: str) -> Object:
    """Return a user as the subject of a binding."""
    return {"apiGroup": _GROUP, "kind": "User", "name": name}


def build_account(name: str, namespace: str) -> Object:
    """Return a ServiceAccount as the subject of a binding."""
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def build_grant(
    rules: Sequence[Object], subject: Object, *, name: str = "", namespace: str = ""
) -> list[Object]:
    """Return a role and its binding. Without a namespace they hold in the whole cluster."""
    scope = "" if namespace else "Cluster"
    metadata = {"name": name or subject["name"], **({"namespace": namespace} if namespace else {})}
    head = {"apiVersion": f"{_GROUP}/v1", "metadata": metadata}
    reference = {"apiGroup": _GROUP, "kind": f"{scope}Role", "name": metadata["name"]}
    return [
        {**head, "kind": f"{scope}Role", "rules": list(rules)},
        {
            **head,
            "kind": f"{scope}RoleBinding",
            "roleRef": reference,
            "subjects": [subject],
        },
    ]


async def grant(
    client: Client, rows: Iterable[RbacRule], subject: str | Object, *, namespace: str = ""
) -> None:
    """Grant a user, or another subject, exactly the rights of a table."""
    named = build_user(subject) if isinstance(subject, str) else subject
    for body in build_grant(build_rules(rows), named, namespace=namespace):
        await client.apply(_RESOURCES[body["kind"]], body, field_manager="tests")


async def grant_syncer(client: Client, user: str) -> None:
    """Grant a user the rights of the syncer's account in the home cluster.

    The RoleBindings that vc-manager creates in root namespaces hold in the whole cluster here.
    """
    await grant(client, [row for row in SUPER_RBAC_RULES if not row.namespaced], user)
    await _create_namespace_role(client)
    named = build_user(user)
    for body in build_grant(
        build_rules(CREDENTIAL_RBAC_RULES), named, name=wellknown.SYNCER_CREDENTIAL_ROLE
    ):
        await client.apply(_RESOURCES[body["kind"]], body, field_manager="tests")


async def grant_own_namespace(client: Client, user: str, namespace: str) -> None:
    """Grant a user the rights of the syncer's account in the namespace of the components."""
    rows = [row for row in SUPER_RBAC_RULES if row.namespaced]
    for body in build_grant(
        build_rules(rows), build_user(user), name="vc-syncer-own-namespace", namespace=namespace
    ):
        await client.apply(_RESOURCES[body["kind"]], body, field_manager="tests")


async def grant_target_secrets(client: Client, user: str, namespace: str) -> None:
    """Let a user read all Secrets of a namespace. vc-manager grants those of SuperClusters only."""
    rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]}
    for body in build_grant(
        [rule], build_user(user), name=wellknown.SYNCER_TARGETS_ROLE, namespace=namespace
    ):
        await client.apply(_RESOURCES[body["kind"]], body, field_manager="tests")


async def grant_target(client: Client, user: str) -> None:
    """Grant a user the rights of the account in a target, as `kubectl vc target join` does."""
    bind = [row for row in SUPER_RBAC_RULES if row.verbs == ("bind",)]
    await grant(client, [*TARGET_RBAC_RULES, *bind], user)
    await _create_namespace_role(client)


async def _create_namespace_role(client: Client) -> None:
    role, _ = build_grant(
        build_rules(NAMESPACE_RBAC_RULES), build_user(""), name=wellknown.SYNCER_NAMESPACE_ROLE
    )
    await client.apply(CLUSTER_ROLES, role, field_manager="tests")


async def guard(
    client: Client,
    user: str = "",
    *,
    component: str = wellknown.SYNCER,
    values: str = "",
    switches: Sequence[str] = (),
) -> None:
    """Create the chart's admission policy of an account, or of a user in its place.

    The policy about levels is left out, because only vc-manager knows them. `values` are texts of
    the chart, and `switches` are values of any type.
    """
    account = f"system:serviceaccount:{NAMESPACE}:{component}"
    template = f"templates/{component.removeprefix('vc-')}-policy.yaml"
    settings = [*(("--set-string", values) if values else ())]
    settings += [word for each in switches for word in ("--set", each)]
    for body in render("--show-only", template, *settings):
        text, kind = json.dumps(body), body["kind"]
        assert kind.endswith("Binding") or account in text
        plural = f"{kind.lower()[:-1]}ies" if kind.endswith("y") else f"{kind.lower()}s"
        resource = Resource("admissionregistration.k8s.io", "v1", plural, kind, namespaced=False)
        await client.create(resource, json.loads(text.replace(account, user or account)))
