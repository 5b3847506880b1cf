"""Real etcd members that the manager adds, replaces, removes and frees, under a client's writes.

The test plays StatefulSet and kubelet: one process for each pod, with a folder for its volume. The
manager's own checks, decisions and member list decide everything else.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self

import orjson
import pytest
import trustme

from kubeio import errors
from kubeio.api.client import Client
from kubeio.config.endpoint import Endpoint
from tenancy import resources
from tests.integration.vcmanager.conftest import ManagerStage, cluster_version
from tests.support.controlplane import LocalControlPlane
from tests.support.eventually import eventually
from tests.support.processes import ProgramProcess, free_port
from tests.support.vcmanager.factories import TENANT, RecordingClient, fake_means
from tools.testbed import binaries
from vcmanager.phases.etcd import member_config
from vcmanager.phases.etcd.member_config import MemberInput, MemberPlan
from vcmanager.phases.etcd.membership import list_ordinals
from vcmanager.reconcilers import etcd_store
from vcmanager.runtime import keys
from vcmanager.runtime.etcd_stores import DesiredStore, Member, StoreReport

pytestmark = pytest.mark.integration

KEY = keys.build_store_key("default", TENANT.uid)
COUNT = 3


class HostedEtcd:
    """An etcd of up to three members on loopback, with TLS as in a root namespace."""

    def __init__(self, folder: Path, *, replicas: int, limit: int = 0) -> None:
        self.folder, self.replicas, self.limit = folder, replicas, limit
        self.pods: dict[int, ProgramProcess] = {}
        self.clients = [free_port() for _ in range(COUNT)]
        self.peers = [free_port() for _ in range(COUNT)]
        self.metrics = [free_port() for _ in range(COUNT)]
        self.plan: MemberPlan | None = None
        self.steps: list[str] = []
        self._authority = trustme.CA()
        super_client = RecordingClient()
        super_client.fence = None  # type: ignore[attr-defined]
        self.means = fake_means(super_client)
        self._write_certificates()

    # The kubelet and the StatefulSet.

    def url(self, ordinal: int) -> str:
        return f"https://127.0.0.1:{self.peers[ordinal]}"

    def volume(self, ordinal: int) -> Path:
        return self.folder / f"data-{ordinal}"

    def start(self, ordinal: int) -> None:
        """Start a pod with the list of members as it is now."""
        assert self.plan is not None
        at, port = self.folder, self.clients[ordinal]
        cluster = self.plan.data["initial-cluster"]
        for number in range(COUNT):
            cluster = cluster.replace(member_config.build_peer_url(number), self.url(number))
        flags = {
            "name": f"etcd-{ordinal}",
            "data-dir": str(self.volume(ordinal)),
            "listen-client-urls": f"https://127.0.0.1:{port}",
            "advertise-client-urls": f"https://127.0.0.1:{port}",
            "listen-peer-urls": self.url(ordinal),
            "initial-advertise-peer-urls": self.url(ordinal),
            "listen-metrics-urls": f"http://127.0.0.1:{self.metrics[ordinal]}",
            "client-cert-auth": "true",
            "peer-client-cert-auth": "true",
            **{
                f"{prefix}{flag}": str(at / file)
                for prefix in ("", "peer-")
                for flag, file in (
                    ("cert-file", "tls.crt"),
                    ("key-file", "tls.key"),
                    ("trusted-ca-file", "ca.crt"),
                )
            },
            "log-level": "warn",
            **({"quota-backend-bytes": str(self.limit)} if self.limit else {}),
        }
        argv = [str(binaries.path("etcd")), *(f"--{key}={value}" for key, value in flags.items())]
        self.log(ordinal).unlink(missing_ok=True)
        self.pods[ordinal] = ProgramProcess(
            [*argv, "--unsafe-no-fsync"],
            self.log(ordinal),
            {
                "ETCD_INITIAL_CLUSTER": cluster,
                "ETCD_INITIAL_CLUSTER_STATE": self.plan.data["initial-cluster-state"],
            },
        )

    def log(self, ordinal: int) -> Path:
        return self.folder / f"etcd-{ordinal}.log"

    def lose(self, ordinal: int) -> None:
        """Lose the disk of a pod."""
        self.pods[ordinal].kill()
        shutil.rmtree(self.volume(ordinal))

    def is_data_lost(self, ordinal: int) -> bool:
        """Return what the manager reads from the pod, as the kubelet reports its end."""
        pod = self.pods.get(ordinal)
        if pod is None or not pod.has_ended:
            return False
        message = self.log(ordinal).read_text()[-2048:]
        container = {"name": "etcd", "state": {"terminated": {"message": message}}}
        return member_config.is_data_lost({"status": {"containerStatuses": [container]}})

    async def run_pods(self) -> None:
        """Run as many pods as the StatefulSet has, and delete the volumes of the others."""
        assert self.plan is not None
        for ordinal in range(COUNT):
            pod = self.pods.get(ordinal)
            if ordinal < self.plan.replicas:
                if pod is None or pod.has_ended:
                    self.start(ordinal)
            elif pod is not None:
                await pod.stop(patience=5.0)
                del self.pods[ordinal]
                shutil.rmtree(self.volume(ordinal))

    # The manager.

    def endpoint(self, ordinal: int) -> Endpoint:
        return Endpoint(
            server=f"https://127.0.0.1:{self.clients[ordinal]}",
            name=f"etcd-{ordinal}",
            ca=(self.folder / "ca.crt").read_bytes(),
            client_cert=(self.folder / "tls.crt").read_bytes(),
            client_key=(self.folder / "tls.key").read_bytes(),
            tls_server_name=f"etcd-{ordinal}.etcd",
        )

    async def work(self) -> StoreReport:
        """Check etcd once, and follow its list with pods."""
        lost = frozenset(each for each in range(COUNT) if self.is_data_lost(each))
        stores = self.means.stores
        stores.set_desired(
            TENANT.uid,
            DesiredStore(
                owner=keys.build_virtual_cluster_key("default", "vc-1"),
                endpoints={each: self.endpoint(each) for each in sorted(self.pods)},
                peer_urls=tuple(map(self.url, range(COUNT))),
                replicas=self.replicas,
                lost=lost,
            ),
        )
        await etcd_store.reconcile_store(self.means, KEY)
        report = stores.get_report(TENANT.uid)
        assert report is not None
        if not self.steps or self.steps[-1] != report.reason:
            self.steps.append(report.reason)
        self.follow(report)
        await self.run_pods()
        return report

    def follow(self, report: StoreReport | None) -> None:
        """Plan ConfigMap and StatefulSet as the VirtualCluster reconcile does."""
        if report is not None:
            named = [
                dataclasses.replace(each, peer_url=member_config.build_peer_url(each.ordinal))
                for each in report.members
                if each.ordinal is not None
            ]
            report = dataclasses.replace(report, members=tuple(named))
        self.plan = member_config.plan_members(
            MemberInput(
                desired=self.replicas,
                config=dict(self.plan.data) if self.plan is not None else None,
                created_with=None,
                report=report,
                pods=sorted(self.pods),
                volumes=",".join(str(each) for each in sorted(self.pods)) or None,
            )
        )

    async def settle(self, *, within: float = 90.0) -> StoreReport:
        """Work until etcd is as desired, with as many pods."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + within
        while loop.time() < ends:
            report = await self.work()
            ordinals = list_ordinals(report.members)
            is_whole = ordinals == report.answered == set(self.pods) == set(range(self.replicas))
            if report.is_ready and is_whole:
                return report
            await asyncio.sleep(0.2)
        logs = [self.log(each).read_text()[-800:] for each in self.pods]
        raise AssertionError(f"{self.steps} {report} {logs}")

    async def call(self, ordinal: int, path: str, **body: Any) -> dict[str, Any]:
        """Send a request of a client."""
        async with Client(self.endpoint(ordinal)) as client:
            answer = await client.raw("POST", f"/v3/{path}", body=body, deadline=3.0)
        return dict(orjson.loads(answer))

    async def stop(self) -> None:
        for pod in self.pods.values():
            await pod.stop(patience=3.0)

    def _write_certificates(self) -> None:
        names = [f"etcd-{each}.etcd" for each in range(COUNT)]
        pair = self._authority.issue_cert("127.0.0.1", "localhost", *names)
        for name, content in (
            ("ca.crt", self._authority.cert_pem.bytes()),
            ("tls.crt", b"".join(each.bytes() for each in pair.cert_chain_pems)),
            ("tls.key", pair.private_key_pem.bytes()),
        ):
            (self.folder / name).write_bytes(content)
            (self.folder / name).chmod(0o600)


def encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class Writer:
    """A client that writes throughout, through any voter, as through the Service `etcd-client`."""

    def __init__(self, etcd: HostedEtcd) -> None:
        self._etcd = etcd
        self.written: list[int] = []
        """Numbers of the acknowledged writes."""
        self.failed = 0
        self.longest = 0.0
        """Longest time between two acknowledged writes, in seconds."""

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        last, number, turn = loop.time(), 0, 0
        while True:
            number += 1
            while True:
                running = sorted(self._etcd.pods)
                turn += 1
                try:
                    await self._etcd.call(
                        running[turn % len(running)],
                        "kv/put",
                        key=encode(f"key-{number}"),
                        value=encode(str(number)),
                    )
                except (errors.KubeError, IndexError):
                    self.failed += 1
                    await asyncio.sleep(0.05)
                    continue
                break
            self.written.append(number)
            self.longest, last = max(self.longest, loop.time() - last), loop.time()
            await asyncio.sleep(0.02)

    async def check(self) -> None:
        """Read back every acknowledged write from every member."""
        for ordinal in sorted(self._etcd.pods):
            answer = await self._etcd.call(
                ordinal, "kv/range", key=encode("key-"), range_end=encode("key."), keys_only=True
            )
            found = {base64.b64decode(each["key"]).decode() for each in answer["kvs"]}
            missing = [each for each in self.written if f"key-{each}" not in found]
            assert not missing, f"etcd-{ordinal} lost acknowledged writes: {missing}"


@contextlib.asynccontextmanager
async def hosted(folder: Path, **options: Any) -> AsyncIterator[HostedEtcd]:
    """Run an etcd as a new tenant gets it."""
    etcd = HostedEtcd(folder, **options)
    try:
        etcd.follow(None)
        await etcd.run_pods()
        await etcd.settle()
        yield etcd
    finally:
        await etcd.stop()


@contextlib.asynccontextmanager
async def writing(etcd: HostedEtcd) -> AsyncIterator[Writer]:
    """Write throughout, and read everything back at the end."""
    writer = Writer(etcd)
    task = asyncio.ensure_future(writer.run())
    try:
        await eventually(lambda: writer.written)
        yield writer
        count = len(writer.written)
        await eventually(lambda: len(writer.written) > count + 5)
    finally:
        task.cancel()
        await asyncio.wait([task])
    await writer.check()
    print(
        f"{len(writer.written)} writes, {writer.failed} retries,"
        f" at most {writer.longest:.1f} s between two"
    )


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
        for _ in range(4):
            report = await etcd.work()
        assert (report.is_filling, report.filling_reason) == (False, "SpaceLeft")
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
