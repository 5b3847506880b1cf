"""`kubectl vc upgrade` against a real API server without vc-manager: the test writes conditions."""

import pytest

from tenancy.resources import CLUSTER_VERSIONS, VIRTUAL_CLUSTERS
from tests.integration.kubectl_vc.conftest import VERSION, UserTerminal
from tests.support.eventually import eventually
from tests.support.names import fresh_name

pytestmark = pytest.mark.integration


async def version(desk: UserTerminal, minor: str, **spec) -> str:
    name = fresh_name("v")
    body = {
        "apiVersion": CLUSTER_VERSIONS.api_version,
        "kind": "ClusterVersion",
        "metadata": {"name": name},
        "spec": {"kubernetesVersion": minor, **spec},
    }
    await desk.client.create(CLUSTER_VERSIONS, body)
    return name


async def running(desk: UserTerminal, number: str) -> None:
    await desk.make()
    await desk.client.patch(
        VIRTUAL_CLUSTERS,
        "web",
        {"status": {"version": number}},
        namespace=desk.namespace,
        subresource="status",
    )


async def chosen(desk: UserTerminal) -> str:
    return str((await desk.fetch())["spec"]["clusterVersionName"])


async def upgrade(desk: UserTerminal, name: str, *more: str):
    return await desk.run("upgrade", "web", "-n", desk.namespace, "--cluster-version", name, *more)


async def test_a_dry_run_explains_and_writes_nothing(desk: UserTerminal):
    await running(desk, "v1.36.4")
    await desk.hand_out()
    name = await version(desk, "1.36", extraArgs={"apiServer": {"event-ttl": "2h"}})
    done = await upgrade(desk, name, "--dry-run")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"ClusterVersion: {VERSION} -> {name}",
        "Restarts, in this order: apiserver",
        "Changed flags:",
        "  apiserver: --event-ttl=2h is added",
        "Removed API versions in use: none was requested since the start of 1 of 1 API servers",
        "  Objects of versions that no client has requested are not counted.",
        "virtualcluster.tenancy.x-k8s.io/web not changed (dry run)",
    ]
    assert await chosen(desk) == VERSION


async def test_another_number_of_replicas_is_explained_and_passes(desk: UserTerminal):
    await running(desk, "v1.36.4")
    name = await version(desk, "1.36", replicas=3)
    done = await upgrade(desk, name, "--dry-run")
    assert (done.code, done.err) == (0, "")
    assert "  controller-manager: --leader-elect: false -> true" in done.out.splitlines()
    assert "Other changed fields: replicas" in done.out.splitlines()


@pytest.mark.parametrize(
    ("number", "minor", "more", "words"),
    [
        ("v1.36.4", "1.35", {}, "A downgrade loses objects"),
        ("v1.34.2", "1.36", {}, "Upgrade one minor at a time"),
    ],
)
async def test_a_refused_upgrade_writes_nothing(desk: UserTerminal, number, minor, more, words):
    """REL-113."""
    await running(desk, number)
    done = await upgrade(desk, await version(desk, minor, **more))
    assert done.code == 1
    assert words in done.err
    assert await chosen(desk) == VERSION


async def test_an_upgrade_is_written_and_followed_to_its_end(desk: UserTerminal):
    await running(desk, "v1.36.4")
    name = await version(desk, "1.36.4")
    command = await desk.start("upgrade", "web", "-n", desk.namespace, "--cluster-version", name)

    async def is_written() -> bool:
        return await chosen(desk) == name

    await eventually(is_written, within=20)
    ready = ("True", "Running", "it runs")
    changing = ("False", "RollingOut", "Changing: StatefulSet apiserver.")
    await desk.report(Ready=ready, ControlPlaneUpToDate=changing)
    await eventually(desk.fetch, within=5)
    await desk.report(Ready=ready, ControlPlaneUpToDate=("True", "UpToDate", "Done."))
    done = await command.end()
    assert done.code == 0, done.err
    assert "Removed API versions in use: not checked." in done.out
    assert done.out.endswith("virtualcluster.tenancy.x-k8s.io/web upgraded\n")


async def test_an_upgrade_that_does_not_finish_has_its_own_code(desk: UserTerminal):
    await running(desk, "v1.36.4")
    name = await version(desk, "1.36.4")
    done = await upgrade(desk, name, "--timeout", "1s")
    assert done.code == 5
    assert await chosen(desk) == name
    again = await upgrade(desk, name)
    assert (again.code, "already" in again.out) == (0, True)


async def test_an_asleep_tenant_is_upgraded_when_it_wakes(desk: UserTerminal):
    await running(desk, "v1.36.4")
    await desk.run("sleep", "web", "-n", desk.namespace, "--no-wait")
    name = await version(desk, "1.36.4")
    done = await upgrade(desk, name)
    assert done.code == 0, done.err
    assert done.out.endswith("web is asleep, and is upgraded when it wakes\n")
    assert await chosen(desk) == name


async def test_a_version_that_is_not_there_is_an_error(desk: UserTerminal):
    await running(desk, "v1.36.4")
    done = await upgrade(desk, "nothing")
    assert (done.code, "ClusterVersion nothing was not found" in done.err) == (1, True)
