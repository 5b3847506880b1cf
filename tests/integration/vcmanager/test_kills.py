"""vc-manager killed at each of its requests, in each operation on a tenant: an index sweep.

After each kill a new process goes on. The end must be that of a run without a kill, with nothing
stuck and nothing left over. Kills at requests to etcd are in the unit tests of the etcd store.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from kubeio import Object, errors
from tenancy import resources, wellknown
from tenancy.ownership import Tenant
from tests.integration.vcmanager.conftest import ManagerStage, cluster_version
from tests.integration.vcmanager.test_etcd_store import listed
from tests.support.vcmanager import kills
from tests.support.vcmanager.kills import KilledError, KillSwitch
from vcmanager.agents import authorities
from vcmanager.phases import startup_order
from vcmanager.pki import bundles, checks, inventory, rotated_secrets
from vcmanager.runtime import keys
from vcmanager.runtime.observed import observe_objects

BOUNDED_POINTS = 6
"""Points of one sweep in a run that is not thorough, for each of before and after."""
EVERY_POINT = 100_000
"""More points than an operation has requests."""
_MOST_TURNS = 400
ROTATED = ("serving", "client", "etcd", "front-proxy", "service-account")
KINDS = (
    resources.SECRETS,
    resources.CONFIG_MAPS,
    resources.SERVICES,
    resources.STATEFUL_SETS,
    resources.DEPLOYMENTS,
    resources.NETWORK_POLICIES,
    resources.ROLE_BINDINGS,
)


@dataclass(kw_only=True)
class KilledStage:
    """The stage, whose manager may be killed once in an operation."""

    stage: ManagerStage
    switch: KillSwitch
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    async def work(self, cluster: Object) -> bool:
        """Reconcile once. Return False after a kill, with a new process for the next time."""
        return await self._attempt(lambda stage: stage.work(cluster))

    async def work_for_agents(self) -> bool:
        """Reconcile the authorities of the agents once. Return False after a kill."""
        return await self._attempt(
            lambda stage: authorities.reconcile_agent_trust(stage.means, keys.AGENT_TRUST_KEY)
        )

    async def _attempt(self, reconcile: Callable[[ManagerStage], Awaitable[object]]) -> bool:
        present = replace(self.stage, means=replace(self.stage.means, now=lambda: self.now))
        try:
            with self.switch.counting():
                await reconcile(present)
        except KilledError:
            self.stage = replace(self.stage, means=kills.forget(self.stage.means))
            return False
        return True

    async def rest(self, cluster: Object) -> None:
        """Work until a reconcile changes nothing and every pod has the present template."""
        for _ in range(_MOST_TURNS):
            before = await self.list_versions(cluster)
            is_alive = await self.work(cluster)
            is_calm = is_alive and await self.list_versions(cluster) == before
            if is_calm and await self._is_rolled_out(cluster):
                return
            with contextlib.suppress(errors.NotFound):  # a controller was faster
                await self.stage.end_pods(cluster)
                await self.stage.run_pods(cluster)
            await asyncio.sleep(0.02)
        raise AssertionError(f"stuck: {(await self.stage.fresh(cluster)).get('status')}")

    async def _is_rolled_out(self, cluster: Object) -> bool:
        metadata = cluster["metadata"]
        tenant = Tenant(
            name=metadata["name"],
            namespace=metadata["namespace"],
            uid=metadata["uid"],
            root=self.stage.root(cluster),
        )
        observed = await observe_objects(self.stage.admin, tenant)
        ready = await self.stage.condition(cluster, "Ready")
        return (
            startup_order.is_all_rolled_out(observed)
            and ready is not None
            and ready["status"] == "True"
        )

    async def list_names(self, cluster: Object) -> set[str]:
        """Return the objects of the root namespace, by kind and name."""
        return set(await self.list_versions(cluster))

    async def list_versions(self, cluster: Object) -> dict[str, str]:
        """Return the version of each object of the root namespace, by kind and name."""
        found = {}
        for resource in KINDS:
            page = await self.stage.admin.list(resource, namespace=self.stage.root(cluster))
            for each in page.get("items") or ():
                metadata = each["metadata"]
                found[f"{resource.kind}/{metadata['name']}"] = metadata["resourceVersion"]
        return found


@pytest.fixture
async def killed(stage: ManagerStage) -> AsyncIterator[KilledStage]:
    switch = KillSwitch()
    with switch.watching(stage.manager, stage.tenants.client):
        yield KilledStage(stage=stage, switch=switch)


Operation = Callable[[KilledStage, Object], Awaitable[None]]


async def annotate(killed: KilledStage, cluster: Object, *annotations: str) -> None:
    stamps = {each: killed.now.isoformat() for each in annotations}
    await killed.stage.admin.patch(
        resources.VIRTUAL_CLUSTERS,
        cluster["metadata"]["name"],
        {"metadata": {"annotations": stamps}},
        namespace="default",
    )


async def renew(killed: KilledStage, cluster: Object) -> None:
    """Renew all certificates by a request."""
    killed.now += timedelta(hours=1)
    requested = killed.now
    await annotate(killed, cluster, wellknown.RENEW_CERTIFICATES)
    killed.now += timedelta(minutes=5)
    await killed.rest(cluster)
    for name in ("apiserver-ca", "etcd-ca", "front-proxy-ca"):
        pair = bundles.read_key_pair(await killed.stage.secret(cluster, name))
        assert pair is not None
        assert checks.get_issue_time(pair) >= requested.replace(microsecond=0), name


async def rotate(killed: KilledStage, cluster: Object) -> None:
    """Rotate authorities and the ServiceAccount key, through all stages."""
    names = {name: rotated_secrets.ROTATED_SECRETS[name] for name in ROTATED}  # type: ignore[index]
    before = {name: (await killed.stage.secret(cluster, names[name]))["data"] for name in names}
    killed.now += timedelta(hours=1)
    requests = [f"{wellknown.ROTATE_PREFIX}{name}" for name in names]
    # Without force the old client authority is kept for the life of a handed-out kubeconfig.
    await annotate(killed, cluster, *requests, f"{wellknown.FORCE_DROP_PREFIX}client")
    for _ in range(12):
        await killed.rest(cluster)
        killed.now += timedelta(days=2)
        secrets = {name: await killed.stage.secret(cluster, names[name]) for name in names}
        states = {
            name: rotated_secrets.read_rotation(name, secret)[0]  # type: ignore[arg-type]
            for name, secret in secrets.items()
        }
        if all(
            state.stage == "stable" and secrets[name]["data"] != before[name]
            for name, state in states.items()
        ):
            break
    else:
        raise AssertionError(f"stuck: {states}")
    await killed.rest(cluster)
    for name in names:
        assert set((await killed.stage.secret(cluster, names[name]))["data"]) == set(before[name])


async def rotate_for_agents(killed: KilledStage, cluster: Object) -> None:
    """Rotate the client authority of the agents, which belongs to all tenants."""
    admin, place = killed.stage.admin, {"namespace": killed.stage.means.namespace}
    name, root = wellknown.AGENT_CLIENT_AUTHORITY_SECRET, killed.stage.root(cluster)
    # Tenants of other tests share the authority. Some cannot be reconciled, on purpose.
    for secret in inventory.AGENT_CLIENT_SECRETS:
        page = await admin.list(resources.SECRETS, field_selector=f"metadata.name={secret}")
        for each in page["items"]:
            if (namespace := each["metadata"]["namespace"]) != root:
                await admin.delete(resources.SECRETS, secret, namespace=namespace)
    before = (await admin.get(resources.SECRETS, name, **place))["data"]
    killed.now += timedelta(hours=1)
    stamp = {f"{wellknown.ROTATE_PREFIX}{inventory.AGENT_CLIENT}": killed.now.isoformat()}
    await admin.patch(resources.SECRETS, name, {"metadata": {"annotations": stamp}}, **place)
    for _ in range(16):
        await killed.work_for_agents()
        await killed.rest(cluster)
        killed.now += timedelta(days=1)
        found = await admin.get(resources.SECRETS, name, **place)
        state, pairs = rotated_secrets.read_rotation(inventory.AGENT_CLIENT, found)
        if state.stage == "stable" and found["data"] != before:
            break
    else:
        raise AssertionError(f"stuck: {state}")
    await killed.work_for_agents()
    assert set(found["data"]) == set(before)
    leaf = bundles.read_key_pair(await killed.stage.secret(cluster, "apiserver-kubelet-client"))
    assert leaf is not None
    assert checks.is_issued_by(leaf.certificate, pairs.current)
    trust = await admin.get(resources.CONFIG_MAPS, wellknown.AGENT_CLIENT_TRUST, **place)
    assert trust["data"]["client-ca.crt"].encode() == pairs.current.certificate


async def upgrade(killed: KilledStage, cluster: Object) -> None:
    """Change to a ClusterVersion of another minor with other flags, and so other templates.

    The API server that stands for the tenant stays. So its minor is that of `kills-a` for ever, and
    the way back is that from a minor that never became ready.
    """
    found = await killed.stage.fresh(cluster)
    wanted = "kills-b" if found["spec"]["clusterVersionName"] == "kills-a" else "kills-a"
    patch = {"spec": {"clusterVersionName": wanted}}
    await killed.stage.admin.patch(
        resources.VIRTUAL_CLUSTERS, cluster["metadata"]["name"], patch, namespace="default"
    )
    await killed.rest(cluster)
    flag = f"--v={VERSIONS[wanted].verbosity}"
    for name in ("apiserver", "controller-manager"):
        stateful_set = await killed.stage.admin.get(
            resources.STATEFUL_SETS, name, namespace=killed.stage.root(cluster)
        )
        [container, *_] = stateful_set["spec"]["template"]["spec"]["containers"]
        assert flag in container["args"], name
        assert f":v{VERSIONS[wanted].minor}." in container["image"], name
    version = await killed.stage.admin.get(resources.CLUSTER_VERSIONS, wanted)
    rollout = (version.get("status") or {}).get("rollout") or {}
    uids = [slot.get("uid") for slot in rollout.get("slots") or ()]
    assert cluster["metadata"]["uid"] not in uids


async def sleep_and_wake(killed: KilledStage, cluster: Object) -> None:
    """Stop the control plane by `spec.sleep`, and start it again."""
    name = cluster["metadata"]["name"]

    async def set_sleep(value: Object | None) -> None:
        patch = {"spec": {"sleep": value}}
        await killed.stage.admin.patch(resources.VIRTUAL_CLUSTERS, name, patch, namespace="default")

    await set_sleep({})
    for _ in range(_MOST_TURNS):
        is_alive = await killed.work(cluster)
        ready = await killed.stage.condition(cluster, "Ready")
        if is_alive and ready is not None and ready["reason"] == wellknown.ASLEEP:
            break
        await killed.stage.end_pods(cluster)
        await asyncio.sleep(0.02)
    else:
        raise AssertionError(f"never asleep: {(await killed.stage.fresh(cluster))['status']}")
    assert await killed.stage.names_of(resources.PODS, cluster) == set()
    await set_sleep(None)
    await killed.rest(cluster)


async def scale(killed: KilledStage, cluster: Object) -> None:
    """Change from one replica to three and back. The reports stand for etcd's own list."""
    version = (await killed.stage.fresh(cluster))["spec"]["clusterVersionName"]
    for replicas, steps in (
        (3, ((0,), (0, 1), (0, 1, 2))),
        (1, ((0, 1, 2), (0, 1), (0,))),
    ):
        patch = {"spec": {"replicas": replicas}}
        await killed.stage.admin.patch(resources.CLUSTER_VERSIONS, version, patch)
        for ordinals in steps:
            await _follow_members(killed, cluster, ordinals)
    await killed.rest(cluster)
    claims = await killed.stage.names_of(resources.PERSISTENT_VOLUME_CLAIMS, cluster)
    assert claims == {"data-etcd-0"}


async def _follow_members(killed: KilledStage, cluster: Object, ordinals: Sequence[int]) -> None:
    """Work until etcd has exactly these pods and volumes."""
    root, uid = killed.stage.root(cluster), cluster["metadata"]["uid"]
    pods = {f"etcd-{each}" for each in ordinals}
    claims = {f"data-{each}" for each in pods}
    found: set[str] = set()
    for _ in range(_MOST_TURNS):
        killed.stage.means.stores.set_report(uid, listed(*ordinals))
        await killed.work(cluster)
        await killed.stage.end_pods(cluster)
        with contextlib.suppress(errors.NotFound):  # a controller was faster
            await killed.stage.run_pods(cluster)
        page = await killed.stage.admin.list(resources.PODS, namespace=root)
        names = {each["metadata"]["name"] for each in page["items"]}
        found = {each for each in names if each.startswith("etcd-")}
        volumes = await killed.stage.names_of(resources.PERSISTENT_VOLUME_CLAIMS, cluster)
        if found == pods and volumes == claims:
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"stuck at {sorted(found)} instead of {sorted(pods)}")


@dataclass(frozen=True)
class Version:
    """Minor and a flag of a ClusterVersion."""

    minor: str
    verbosity: str


VERSIONS = {"kills-a": Version("1.36", "1"), "kills-b": Version("1.37", "3")}


async def declare_versions(stage: ManagerStage) -> None:
    for name, each in VERSIONS.items():
        level = {"v": each.verbosity}
        version = cluster_version(
            name,
            kubernetesVersion=each.minor,
            serviceType="ClusterIP",
            extraArgs={"apiServer": level, "controllerManager": level},
        )
        await stage.admin.apply(resources.CLUSTER_VERSIONS, version, field_manager="tests")


def choose_points(calls: int, *, most: int) -> Sequence[int]:
    """Return the numbers of requests to kill at: all, or some that are spread evenly."""
    stride = max(1, -(-calls // most))
    return range(1, calls + 1, stride)


async def sweep(
    killed: KilledStage, operation: Operation, cluster: Object, *, most: int
) -> tuple[int, int]:
    """Repeat an operation on one tenant with a kill at each point.

    Return the number of its requests, and that of kills.
    """
    killed.switch.arm(0, is_done=False)
    await operation(killed, cluster)
    calls, names, points = killed.switch.calls, await killed.list_names(cluster), 0
    identity = await record_identity(killed, cluster)
    for at in choose_points(calls, most=most):
        for is_done in (False, True):
            killed.switch.arm(at, is_done=is_done)
            await operation(killed, cluster)
            points += killed.switch.has_struck
            assert await killed.list_names(cluster) == names, (at, is_done)
            assert await record_identity(killed, cluster) == identity, (at, is_done)
    return calls, points


async def record_identity(killed: KilledStage, cluster: Object) -> dict[str, str]:
    """Return what no operation may replace."""
    root, admin = killed.stage.root(cluster), killed.stage.admin
    found = {"namespace": (await admin.get(resources.NAMESPACES, root))["metadata"]["uid"]}
    for resource in (
        resources.STATEFUL_SETS,
        resources.SERVICES,
        resources.PERSISTENT_VOLUME_CLAIMS,
    ):
        for each in (await admin.list(resource, namespace=root))["items"]:
            found[f"{resource.kind}/{each['metadata']['name']}"] = each["metadata"]["uid"]
    return found


OPERATIONS: dict[str, Operation] = {
    "renew": renew,
    "rotate": rotate,
    "rotate agent-client": rotate_for_agents,
    "upgrade": upgrade,
    "sleep and wake": sleep_and_wake,
    "scale": scale,
}


async def swept(killed: KilledStage, name: str, most: int) -> None:
    await declare_versions(killed.stage)
    cluster = await killed.stage.declare(clusterVersionName="kills-a")
    await killed.rest(cluster)
    calls, points = await sweep(killed, OPERATIONS[name], cluster, most=most)
    print(f"{name}: {calls} requests, vc-manager was killed {points} times")
    assert points > 0


async def create_and_delete(killed: KilledStage, most: int) -> None:
    """Create and delete a tenant for each point: the kill comes in the one and in the other."""
    created, deleted, names = await create_once(killed, 0, 0, is_done=False)
    counts = {"creation": 0, "deletion": 0}
    rows = itertools.zip_longest(
        choose_points(created, most=most), choose_points(deleted, most=most), fillvalue=0
    )
    for (first, second), is_done in itertools.product(rows, (False, True)):
        *_, found = await create_once(killed, first, second, is_done=is_done, counts=counts)
        assert found == names, (first, second, is_done)
    for name, calls in (("creation", created), ("deletion", deleted)):
        print(f"{name}: {calls} requests, vc-manager was killed {counts[name]} times")
        assert counts[name] > 0


async def create_once(
    killed: KilledStage,
    first: int,
    second: int,
    *,
    is_done: bool,
    counts: dict[str, int] | None = None,
) -> tuple[int, int, set[str]]:
    """Create and delete a tenant. A kill is at request `first` of the one, `second` of the other.

    Return the numbers of requests, and the objects of the root namespace. 0 is no kill.
    """
    killed.switch.arm(first, is_done=is_done)
    cluster = await killed.stage.declare()
    await killed.rest(cluster)
    created, names = killed.switch.calls, await killed.list_names(cluster)
    if counts is not None:
        counts["creation"] += killed.switch.has_struck
    killed.switch.arm(second, is_done=is_done)
    await delete(killed, cluster)
    if counts is not None:
        counts["deletion"] += killed.switch.has_struck
    return created, killed.switch.calls, names


async def delete(killed: KilledStage, cluster: Object) -> None:
    """Delete a VirtualCluster, until nothing of it is left."""
    admin, metadata = killed.stage.admin, cluster["metadata"]
    await admin.delete(resources.VIRTUAL_CLUSTERS, metadata["name"], namespace="default")
    for _ in range(_MOST_TURNS):
        await killed.work(cluster)
        try:
            await killed.stage.fresh(cluster)
        except errors.NotFound:
            break
        await killed.stage.end_pods(cluster)
        await asyncio.sleep(0.05)
    else:
        raise AssertionError(f"stuck: {await killed.stage.fresh(cluster)}")
    # One plane stands for all tenants, and the next one has another service range.
    with contextlib.suppress(errors.NotFound):
        await killed.stage.tenants.client.delete(
            resources.SERVICES, "kube-dns", namespace="kube-system"
        )
    page = await admin.list(
        resources.NAMESPACES, label_selector=f"{wellknown.VC_UID}={metadata['uid']}"
    )
    left = [each for each in page["items"] if "deletionTimestamp" not in each["metadata"]]
    assert left == []


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", OPERATIONS)
async def test_a_kill_in_an_operation_leaves_nothing_stuck_or_over(killed: KilledStage, name: str):
    """REL-165."""
    await swept(killed, name, BOUNDED_POINTS)


@pytest.mark.timeout(900)
async def test_a_kill_in_the_creation_or_deletion_leaves_nothing_stuck_or_over(
    killed: KilledStage,
):
    """REL-165."""
    await create_and_delete(killed, BOUNDED_POINTS)


@pytest.mark.thorough
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", OPERATIONS)
async def test_a_kill_at_every_request_of_an_operation_leaves_nothing_stuck_or_over(
    killed: KilledStage, name: str
):
    """REL-165."""
    await swept(killed, name, EVERY_POINT)


@pytest.mark.slow
@pytest.mark.timeout(14400)
async def test_a_kill_at_every_request_of_the_creation_and_deletion_leaves_nothing_stuck_or_over(
    killed: KilledStage,
):
    """REL-165."""
    await create_and_delete(killed, EVERY_POINT)
