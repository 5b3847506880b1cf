"""Real etcd members that the manager adds, replaces, removes and frees, under a client's writes.

`hosted_etcd` stands for StatefulSet and kubelet.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from pathlib import Path
from typing import Self

import pytest

from kubeio import errors
from kubeio.api.client import Client
from tenancy import resources
from tests.integration.vcmanager.conftest import ManagerStage, cluster_version
from tests.integration.vcmanager.hosted_etcd import COUNT, HostedEtcd, encode, hosted, writing
from tests.support.controlplane import LocalControlPlane
from tests.support.eventually import eventually
from tests.support.processes import free_port
from vcmanager.phases.etcd import member_config
from vcmanager.runtime.etcd_stores import Member, StoreReport

pytestmark = pytest.mark.integration


async def test_one_member_becomes_three_and_one_again_under_writes(tmp_path: Path):
    """REL-121."""
    async with hosted(tmp_path, replicas=1) as etcd:
        first = etcd.pods[0].pid
        identity = etcd.plan and etcd.plan.identity
        async with writing(etcd) as writer:
            for replicas in (3, 1, 3):
                etcd.replicas = replicas
                report = await etcd.settle()
                assert len(report.members) == replicas
                assert not any(each.is_learner for each in report.members)
        assert etcd.pods[0].pid == first, "the first member was never restarted"
        assert (etcd.plan and etcd.plan.identity) == identity, "no reader of etcd restarts"
        assert writer.longest < 10


@pytest.mark.parametrize("which", ["leader", "follower"])
async def test_a_member_that_lost_its_disk_is_replaced_under_writes(tmp_path: Path, which: str):
    """REL-120."""
    async with hosted(tmp_path, replicas=3) as etcd:
        await etcd.work()  # the list is guarded from now on
        assert etcd.plan is not None
        assert etcd.plan.data["initial-cluster-state"] == "existing"
        report = await etcd.settle()
        status = await etcd.call(0, "maintenance/status")
        leader = next(each.ordinal for each in report.members if each.id == status["leader"])
        assert leader is not None
        lost = leader if which == "leader" else (leader + 1) % COUNT
        before = {each.ordinal: each.id for each in report.members}
        async with writing(etcd) as writer:
            etcd.lose(lost)
            await asyncio.sleep(0.5)
            report = await etcd.settle()
        after = {each.ordinal: each.id for each in report.members}
        assert after[lost] != before[lost], "the member has another ID"
        kept = {*range(COUNT)} - {lost}
        assert {each: after[each] for each in kept} == {each: before[each] for each in kept}
        assert "ReplacingMember" in etcd.steps
        assert writer.longest < 15


async def test_without_a_quorum_the_manager_changes_nothing(tmp_path: Path):
    async with hosted(tmp_path, replicas=3) as etcd:
        await etcd.work()
        await etcd.settle()
        etcd.lose(1)
        etcd.lose(2)
        await asyncio.sleep(0.5)
        for _ in range(8):
            report = await etcd.work()
            await asyncio.sleep(0.3)
        assert (report.reason, report.members) == ("EtcdUnreachable", ())
        await eventually(lambda: etcd.is_data_lost(1) and etcd.is_data_lost(2))
        assert not re.search("raft.*leader", etcd.log(1).read_text())


async def test_a_full_etcd_is_reported_and_accepts_writes_when_there_is_room(tmp_path: Path):
    """REL-122."""
    value = "x" * 900_000
    async with hosted(tmp_path, replicas=1, limit=16 * 2**20) as etcd:
        for number in range(60):
            try:
                await etcd.call(0, "kv/put", key=encode(f"large-{number}"), value=encode(value))
            except errors.KubeError:
                break
        else:
            raise AssertionError("etcd has no limit")
        report = await etcd.work()
        assert (report.is_filling, report.filling_reason) == (True, "NoSpace")
        with pytest.raises(errors.KubeError):
            await etcd.call(0, "kv/put", key=encode("a"), value=encode("b"))
        found = await etcd.call(
            0, "kv/deleterange", key=encode("large-"), range_end=encode("large.")
        )
        await etcd.call(0, "kv/compaction", revision=found["header"]["revision"], physical=True)
        report = await eventually(etcd.work, until=lambda found: not found.is_filling)
        assert report.filling_reason == "SpaceLeft"
        await etcd.call(0, "kv/put", key=encode("a"), value=encode("b"))


class ClientService:
    """The Service `etcd-client`: each new connection leads to one of the ready pods."""

    def __init__(self, etcd: HostedEtcd) -> None:
        self._etcd, self._turn = etcd, 0
        self.port = free_port()
        self._server: asyncio.Server | None = None
        self._piping: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._piping:
            task.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ready = [each for each in sorted(self._etcd.pods) if await self._is_ready(each)]
        if not ready:
            writer.close()
            return
        self._turn += 1
        port = self._etcd.clients[ready[self._turn % len(ready)]]
        try:
            inner, outer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        for one, other in ((reader, outer), (inner, writer)):
            task = asyncio.ensure_future(self._pipe(one, other))
            self._piping.add(task)
            task.add_done_callback(self._piping.discard)

    async def _is_ready(self, ordinal: int) -> bool:
        """Return the answer of the readiness probe. A learner is not ready."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._etcd.metrics[ordinal])
            writer.write(b"GET /readyz HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n\r\n")
            answer = await reader.read()
            writer.close()
        except OSError:
            return False
        return b" 200 OK" in answer.split(b"\r\n", 1)[0]

    @staticmethod
    async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(65536):
                writer.write(chunk)
                await writer.drain()
        writer.close()


class ApiUser:
    """A client of the tenant's API that reads and writes ten times a second, without retries."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.answers = {"GET": 0, "PATCH": 0}
        self.failures: list[str] = []
        self.longest = 0.0

    async def run(self) -> None:
        path = "/api/v1/namespaces/default/configmaps/ticks"
        loop, number = asyncio.get_running_loop(), 0
        while True:
            number += 1
            body = {"data": {"tick": str(number)}}
            for method in ("GET", "PATCH"):
                began = loop.time()
                try:
                    await self._client.raw(
                        method,
                        path,
                        body=body if method == "PATCH" else None,
                        content="application/merge-patch+json",
                        repeatable=False,
                        deadline=15.0,
                    )
                except errors.KubeError as problem:
                    self.failures.append(f"{method} {number}: {problem}")
                else:
                    self.answers[method] += 1
                self.longest = max(self.longest, loop.time() - began)
            await asyncio.sleep(0.1)


async def test_a_user_of_the_tenants_api_notices_neither_a_change_nor_a_loss(tmp_path: Path):
    """REL-120, REL-121."""
    store, api = tmp_path / "etcd", tmp_path / "api"
    store.mkdir()
    async with hosted(store, replicas=1) as etcd, ClientService(etcd) as service:
        plane = LocalControlPlane(
            api,
            name="tenant",
            service_range="10.96.24.0/22",
            api_args={
                "etcd-servers": f"https://127.0.0.1:{service.port}",
                "etcd-cafile": str(store / "ca.crt"),
                "etcd-certfile": str(store / "tls.crt"),
                "etcd-keyfile": str(store / "tls.key"),
            },
        )
        await plane.start()
        try:
            async with Client(plane.endpoint) as client:
                ticks = {"metadata": {"name": "ticks"}}
                await client.create(resources.CONFIG_MAPS, ticks, namespace="default")
                user = ApiUser(client)
                task = asyncio.ensure_future(user.run())
                try:
                    etcd.replicas = 3
                    await etcd.settle()
                    grown = len(user.failures)
                    for lost in range(COUNT):
                        etcd.lose(lost)
                        await etcd.settle()
                    replaced = len(user.failures)
                    etcd.replicas = 1
                    await etcd.settle()
                    await asyncio.sleep(1)
                finally:
                    task.cancel()
                    await asyncio.wait([task])
        finally:
            await plane.stop()
    failed = user.failures
    print(
        f"{user.answers}, failed: {grown} from one to three, {replaced - grown} by three disks,"
        f" {len(failed) - replaced} from three to one, longest {user.longest:.1f} s"
    )
    assert grown == 0, failed
    # A write in flight to a member that dies is not repeated by the API server.
    assert replaced - grown <= COUNT, failed
    assert len(failed) - replaced <= COUNT - 1, failed
    assert user.longest < 15


def listed(*ordinals: int, joining: int | None = None) -> StoreReport:
    """Return a report of etcd's list, in which one member may not have started."""
    members = tuple(
        Member(
            id=str(each),
            peer_url=member_config.build_peer_url(each),
            ordinal=each,
            is_learner=each == joining,
            is_started=each != joining,
        )
        for each in ordinals
    )
    answered = frozenset(ordinals) - {joining}
    return StoreReport(
        members=members, answered=answered, reason="Scaling", message="m", is_ready=False
    )


async def test_pods_and_volumes_follow_etcds_list_under_the_managers_rights(stage: ManagerStage):
    """REL-121: the pods of before are never restarted, and a volume ends after its member."""
    name = "one-or-three"
    version = cluster_version(name, kubernetesVersion="1.36", serviceType="ClusterIP")
    await stage.admin.create(resources.CLUSTER_VERSIONS, version)
    cluster = await stage.declare(clusterVersionName=name)
    await stage.bring_up(cluster)
    root, uid = stage.root(cluster), cluster["metadata"]["uid"]

    async def wanted(replicas: int) -> None:
        body = {"spec": {"replicas": replicas}}
        await stage.admin.patch(resources.CLUSTER_VERSIONS, name, body)

    async def pods_of(component: str) -> dict[str, str]:
        page = await stage.admin.list(resources.PODS, namespace=root)
        return {
            each["metadata"]["name"]: each["metadata"]["uid"]
            for each in page["items"]
            if each["metadata"]["name"].startswith(component)
        }

    async def follow(report: StoreReport | None, pods: int) -> dict[str, str]:
        """Reconcile with a report until there are so many etcd pods. Returns the ConfigMap."""
        if report is not None:
            stage.means.stores.set_report(uid, report)

        async def settled() -> bool:
            await stage.work(cluster)
            await stage.run_pods(cluster)
            await stage.end_pods(cluster)
            etcd = await stage.admin.get(resources.STATEFUL_SETS, "etcd", namespace=root)
            return (etcd["spec"]["replicas"], len(await pods_of("etcd"))) == (pods, pods)

        await eventually(settled)
        await stage.work(cluster, times=2)
        found = await stage.admin.get(resources.CONFIG_MAPS, "etcd-members", namespace=root)
        return dict(found["data"])

    await stage.work(cluster, times=2)
    first, servers = await pods_of("etcd"), await pods_of("apiserver")
    identity = (await follow(None, 1))["store-identity"]
    await wanted(3)
    assert (await follow(None, 1))["initial-cluster-state"] == "new", "etcd was not read"
    assert (await follow(listed(0), 1))["store-identity"] == identity
    data = await follow(listed(0, 1, joining=1), 2)
    assert data["initial-cluster-state"] == "existing"
    assert member_config.is_joining(1, data)
    assert not member_config.is_joining(0, data)
    data = await follow(listed(0, 1, 2, joining=2), 3)
    assert [member_config.is_joining(each, data) for each in range(3)] == [False, False, True]
    data = await follow(listed(0, 1, 2), 3)
    assert not any(member_config.is_joining(each, data) for each in range(3))
    condition = await stage.condition(cluster, "EtcdMembersReady")
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("False", "Scaling")
    assert (await stage.condition(cluster, "Ready") or {})["status"] == "True"
    assert {"data-etcd-0", "data-etcd-1", "data-etcd-2"} == await stage.names_of(
        resources.PERSISTENT_VOLUME_CLAIMS, cluster
    )
    assert first.items() <= (await pods_of("etcd")).items()
    assert servers.items() <= (await pods_of("apiserver")).items()

    await wanted(1)
    await follow(listed(0, 1, 2), 3)
    await follow(listed(0, 1), 2)

    async def claims() -> set[str]:
        await stage.work(cluster)
        return await stage.names_of(resources.PERSISTENT_VOLUME_CLAIMS, cluster)

    await eventually(claims, until=lambda found: found == {"data-etcd-0", "data-etcd-1"})
    await follow(listed(0), 1)
    await eventually(claims, until=lambda found: found == {"data-etcd-0"})
    data = await follow(listed(0), 1)
    assert (data["initial-cluster-state"], data["store-identity"]) == ("new", identity)
    assert await pods_of("etcd") == first
    desired = stage.means.stores.get_desired(uid)
    assert desired is not None
    assert (desired.replicas, desired.occupied) == (1, frozenset())
