"""The chart's roles for people, bound as its README says: what each verb needs, and no more.

The roles are those that helm renders, and the API server judges by them.
"""

from __future__ import annotations

import contextlib

import pytest

from kubeio import errors
from kubeio.api.client import Client
from tenancy.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CLUSTER_VERSIONS,
    ROLE_BINDINGS,
    SECRETS,
    VIRTUAL_CLUSTERS,
)
from tests.integration.kubectl_vc.conftest import VERSION, UserTerminal
from tests.integration.kubectl_vc.test_create import finish
from tests.support.eventually import eventually
from tests.support.helm import named, render
from tests.support.names import fresh_name

EDIT, VERSIONS = "virtual-cluster-edit", "virtual-cluster-versions"
KUBECONFIGS = "virtual-cluster-kubeconfigs"
RBAC = "rbac.authorization.k8s.io"


@pytest.fixture(scope="session")
def roles() -> dict[str, dict]:
    found = render()
    return {name: named(found, "ClusterRole", name) for name in (EDIT, VERSIONS, KUBECONFIGS)}


async def bind(desk: UserTerminal, role: dict, user: str, namespace: str = "") -> None:
    """Bind a role of the chart, in a namespace or in the whole cluster."""
    with contextlib.suppress(errors.AlreadyExists):
        await desk.client.create(CLUSTER_ROLES, role)
    resource = ROLE_BINDINGS if namespace else CLUSTER_ROLE_BINDINGS
    place = {"namespace": namespace} if namespace else {}
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": fresh_name("bound"), **place},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role["metadata"]["name"]},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }
    await desk.client.create(resource, body)


@pytest.fixture
async def owner(desk: UserTerminal, roles: dict[str, dict]) -> str:
    """A person who may make tenants in one namespace; the following commands run as this one."""
    user = fresh_name("owner")
    await bind(desk, roles[EDIT], user, desk.namespace)
    await bind(desk, roles[VERSIONS], user)
    async with Client(desk.plane.endpoint_for(user)) as theirs:
        await eventually(lambda: theirs.list(VIRTUAL_CLUSTERS, namespace=desk.namespace))
        await eventually(lambda: theirs.list(CLUSTER_VERSIONS))
    desk.become(user)
    return user


async def may_get_kubeconfig(desk: UserTerminal, user: str, root: str) -> None:
    async with Client(desk.plane.endpoint_for(user)) as theirs:
        await eventually(lambda: theirs.get(SECRETS, "admin-kubeconfig", namespace=root))


async def test_with_the_three_roles_create_writes_the_kubeconfig(
    desk: UserTerminal, roles: dict[str, dict], owner: str
):
    await bind(desk, roles[KUBECONFIGS], owner)
    async with Client(desk.plane.endpoint_for(owner)) as theirs:

        async def is_bound() -> bool:
            try:
                await theirs.get(SECRETS, "admin-kubeconfig", namespace="default")
            except errors.NotFound:
                return True
            except errors.Forbidden:
                return False
            return True

        await eventually(is_bound)
        with pytest.raises(errors.Forbidden):
            await theirs.get(SECRETS, "another", namespace="default")
        with pytest.raises(errors.Forbidden):
            await theirs.list(SECRETS, namespace="default")
    running = await desk.start(
        *("create", "web", "--cluster-version", VERSION, "-n", desk.namespace, "-o", "kc")
    )
    content = await finish(desk)
    done = await running.end()
    assert done.code == 0, done.err
    assert (desk.folder / "kc").read_bytes() == content


async def test_without_the_third_role_everything_else_works_and_the_errors_name_it(
    desk: UserTerminal, roles: dict[str, dict], owner: str
):
    words = ("web", "-n", desk.namespace)
    create = ("create", *words, "--cluster-version", VERSION)
    refused = await desk.run(*create, "-o", "kc")
    assert refused.code == 1
    assert "you may not get the Secret admin-kubeconfig in the namespace of a new" in refused.err
    assert "Nothing was created. Leave -o out" in refused.err
    assert f"the ClusterRole {KUBECONFIGS} in the whole cluster" in refused.err
    assert not await desk.is_there()

    assert (await desk.run(*create, "--no-wait")).code == 0
    root = await desk.root()
    content = await desk.hand_out()
    refused = await desk.run("kubeconfig", *words)
    assert refused.code == 1
    assert f"--namespace {root} --clusterrole {KUBECONFIGS} --user {owner}" in refused.err

    await bind(desk, roles[KUBECONFIGS], owner, root)
    await may_get_kubeconfig(desk, owner, root)
    done = await desk.run("kubeconfig", *words, "-o", "kc")
    assert done.code == 0, done.err
    assert (desk.folder / "kc").read_bytes() == content
    async with Client(desk.plane.endpoint_for(owner)) as theirs:
        with pytest.raises(errors.Forbidden):
            await theirs.get(SECRETS, "admin-kubeconfig", namespace="default")

    for verb in ("list", "get"):
        assert (await desk.run(verb, "-n", desk.namespace)).code == 0
    shown = await desk.run("get", *words)
    assert shown.code == 0
    assert "Objects in the super cluster are not shown" in shown.err
    assert (await desk.run("delete", *words)).code == 0
