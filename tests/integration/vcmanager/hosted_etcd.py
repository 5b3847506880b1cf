"""An etcd of real processes that vc-manager checks and changes, and a client that writes to it.

It stands for StatefulSet and kubelet: one process for each pod, with a folder for its volume.
vc-manager's own checks, decisions and member list decide everything else.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import trustme

from kubeio import errors
from kubeio.api.client import Client
from kubeio.config.endpoint import Endpoint
from tests.support.eventually import eventually
from tests.support.processes import ProgramProcess, free_port
from tests.support.vcmanager.factories import TENANT, RecordingClient, fake_means
from tools.testbed.artifacts import binaries
from vcmanager.phases.etcd import member_config
from vcmanager.phases.etcd.member_config import MemberInput, MemberPlan
from vcmanager.phases.etcd.membership import list_ordinals
from vcmanager.reconcilers import etcd_store
from vcmanager.runtime import keys
from vcmanager.runtime.etcd_stores import DesiredStore, StoreReport

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
