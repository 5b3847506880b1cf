"""Revocation of a kubeconfig with a role, against a real API server."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.config import loading
from tenancy import wellknown
from tenancy.resources import CLUSTER_ROLE_BINDINGS, CONFIG_MAPS, ROLE_BINDINGS, Resource
from tests.integration.kubectl_vc.conftest import UserTerminal
from tests.support.eventually import eventually
from tests.support.names import fresh_name

RBAC = "rbac.authorization.k8s.io"


def subject(name: str, kind: str = "User") -> Object:
    return {"apiGroup": RBAC, "kind": kind, "name": name}


async def bind(
    client: Client,
    kind: Resource,
    name: str,
    *subjects: Object,
    namespace: str = "",
    role: str = "admin",
) -> None:
    body = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": list(subjects),
    }
    await client.create(kind, body)


async def may_list(client: Client, namespace: str) -> bool:
    try:
        await client.list(CONFIG_MAPS, namespace=namespace)
    except errors.Forbidden:
        return False
    return True


async def is_refused(client: Client, namespace: str) -> bool:
    return not await may_list(client, namespace)


async def test_revocation_ends_each_binding_that_the_holder_created(
    desk: UserTerminal, tmp_path: Path
):
    number = fresh_name("n")
    user = f"{wellknown.KUBECONFIG_USER_PREFIX}admin:{number}"
    name = f"vc-kubeconfig-{number}"  # no controller fills the role admin here
    await bind(desk.client, CLUSTER_ROLE_BINDINGS, name, subject(user), role="cluster-admin")
    (tmp_path / "tenant").write_bytes(desk.plane.kubeconfig())
    guest = loading.load_tenant_kubeconfig(desk.plane.kubeconfig(user, group=""))
    async with Client(guest) as client:
        await eventually(lambda: may_list(client, desk.namespace), within=20)
        # The holder binds itself, and adds itself to a binding that others need.
        await bind(client, ROLE_BINDINGS, "own", subject(user), namespace=desk.namespace)
        others = [subject("colleague"), subject(user, "Group"), subject(user)]
        await bind(client, ROLE_BINDINGS, "shared", *others, namespace=desk.namespace, role="edit")
        await bind(desk.client, CLUSTER_ROLE_BINDINGS, number, subject(user), role="cluster-admin")

        done = await desk.run("kubeconfig", "--kubeconfig", "tenant", "--revoke", user)
        assert done.code == 0, done.err
        assert done.out == (
            f"kubeconfig of the user {user} revoked: 3 bindings deleted, 1 changed\n"
        )
        assert "ServiceAccount tokens" in done.err
        await eventually(lambda: is_refused(client, desk.namespace), within=10)
    kept = await desk.client.get(ROLE_BINDINGS, "shared", namespace=desk.namespace)
    assert [(each["kind"], each["name"]) for each in kept["subjects"]] == [
        ("User", "colleague"),
        ("Group", user),
    ]
    again = await desk.run("kubeconfig", "--kubeconfig", "tenant", "--revoke", user)
    assert (again.code, "is revoked already" in again.err) == (1, True)


async def test_revocation_without_the_right_to_see_all_bindings_changes_nothing(
    desk: UserTerminal, tmp_path: Path
):
    number = fresh_name("n")
    user = f"{wellknown.KUBECONFIG_USER_PREFIX}view:{number}"
    await bind(desk.client, CLUSTER_ROLE_BINDINGS, number, subject(user))
    (tmp_path / "tenant").write_bytes(desk.plane.kubeconfig(fresh_name("stranger"), group=""))
    done = await desk.run("kubeconfig", "--kubeconfig", "tenant", "--revoke", user)
    assert done.code == 1
    assert "clusterrolebindings" in done.err
    assert (await desk.client.get(CLUSTER_ROLE_BINDINGS, number))["subjects"]


@pytest.mark.parametrize("role", ["view", "edit"])
async def test_only_roles_that_read_secrets_leave_tokens(
    desk: UserTerminal, tmp_path: Path, role: str
):
    number = fresh_name("n")
    user = f"{wellknown.KUBECONFIG_USER_PREFIX}{role}:{number}"
    await bind(desk.client, CLUSTER_ROLE_BINDINGS, number, subject(user), role=role)
    (tmp_path / "tenant").write_bytes(desk.plane.kubeconfig())
    done = await desk.run("kubeconfig", "--kubeconfig", "tenant", "--revoke", user)
    assert done.out.endswith("revoked: 1 binding deleted\n")
    assert ("ServiceAccount tokens" in done.err) == (role == "edit")
