"""The chart's roles for people, bound as in its README: the rights that each verb needs.

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
from tenancy.specs import parse_virtual_cluster
from tests.integration.kubectl_vc.conftest import VERSION, UserTerminal
from tests.integration.kubectl_vc.test_create import finish
from tests.support.eventually import eventually
from tests.support.helm import named, render
from tests.support.names import fresh_name
from vcmanager.phases import root_namespace

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
    """A person who may make tenants in one namespace. The following commands run as this one."""
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


async def play_manager(desk: UserTerminal, roles: dict[str, dict], name: str = "web") -> dict:
    """Write the RoleBinding that vc-manager writes, and return the VirtualCluster."""

    async def named_reader() -> dict:
        found = await desk.fetch(name)
        assert found["spec"].get("kubeconfigReaders")
        return found

    body = await eventually(named_reader)
    with contextlib.suppress(errors.AlreadyExists):
        await desk.client.create(CLUSTER_ROLES, roles[KUBECONFIGS])
    (binding,) = root_namespace.build_role_bindings(parse_virtual_cluster(body).spec)
    await desk.client.apply(
        ROLE_BINDINGS,
        {**binding, "metadata": {**binding["metadata"], "namespace": await desk.root(name)}},
        field_manager="vc-manager",
    )
    return body


async def test_an_owner_gets_the_kubeconfig_of_its_own_tenant_and_no_other_secret(
    desk: UserTerminal, roles: dict[str, dict], owner: str
):
    """SEC-209."""
    words = ("web", "-n", desk.namespace)
    running = await desk.start("create", *words, "--cluster-version", VERSION, "-o", "kc")
    body = await play_manager(desk, roles)
    assert body["spec"]["kubeconfigReaders"] == [{"kind": "User", "name": owner}]
    content = await finish(desk)
    done = await running.end()
    assert done.code == 0, done.err
    assert (desk.folder / "kc").read_bytes() == content
    root = await desk.root()
    async with Client(desk.plane.endpoint_for(owner)) as theirs:
        for namespace, name in (
            (root, "root-ca"),
            (desk.namespace, "admin-kubeconfig"),
            ("kube-system", "admin-kubeconfig"),
        ):
            with pytest.raises(errors.Forbidden):
                await theirs.get(SECRETS, name, namespace=namespace)
        with pytest.raises(errors.Forbidden):
            await theirs.list(SECRETS, namespace=root)

    # A second owner is added beside the first by the command that fetches the file.
    second = fresh_name("second")
    await bind(desk, roles[EDIT], second, desk.namespace)
    async with Client(desk.plane.endpoint_for(second)) as theirs:
        await eventually(lambda: theirs.list(VIRTUAL_CLUSTERS, namespace=desk.namespace))
    desk.become(second)
    fetching = await desk.start("kubeconfig", *words, "-o", "kc2")

    async def added() -> bool:
        found = (await desk.fetch())["spec"]["kubeconfigReaders"]
        return [each["name"] for each in found] == [owner, second]

    await eventually(added)
    await play_manager(desk, roles)
    done = await fetching.end()
    assert done.code == 0, done.err
    assert (desk.folder / "kc2").read_bytes() == content


async def test_a_reader_of_the_tenant_is_informed_what_an_administrator_runs(
    desk: UserTerminal, roles: dict[str, dict], owner: str
):
    words = ("web", "-n", desk.namespace)
    assert (await desk.run("create", *words, "--cluster-version", VERSION, "--no-wait")).code == 0
    root = await desk.root()
    content = await desk.hand_out()
    viewer = fresh_name("viewer")
    view = {
        "apiVersion": CLUSTER_ROLES.api_version,
        "kind": "ClusterRole",
        "metadata": {"name": fresh_name("view")},
        "rules": [
            {
                "apiGroups": [VIRTUAL_CLUSTERS.group],
                "resources": [VIRTUAL_CLUSTERS.plural],
                "verbs": ["get", "list"],
            }
        ],
    }
    await bind(desk, view, viewer, desk.namespace)
    async with Client(desk.plane.endpoint_for(viewer)) as theirs:
        await eventually(lambda: theirs.list(VIRTUAL_CLUSTERS, namespace=desk.namespace))
    desk.become(viewer)
    refused = await desk.run("kubeconfig", *words)
    assert refused.code == 1
    assert f"--namespace {root} --clusterrole {KUBECONFIGS} --user {viewer}" in refused.err
    assert "kubeconfigReaders" not in (await desk.fetch())["spec"]

    desk.become(owner)
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
