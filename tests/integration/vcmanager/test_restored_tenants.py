"""Restores in place of tenants with three members, that sleep, or whose authorities were rotated.

etcd, its programs and the API server are real. The tests play kubelet.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pytest

from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.config.endpoint import Endpoint
from tenancy import resources, wellknown
from tests.integration.vcmanager.conftest import ManagerStage, cluster_version
from tests.integration.vcmanager.hosted_control_plane import (
    HostTenant,
    build_api_flags,
    build_etcd_flags,
    materialise,
    start,
    who,
)
from tests.integration.vcmanager.test_rotation import request, stage_of
from tests.integration.vcmanager.test_rotation_on_host import is_refused
from tests.integration.vcmanager.test_sleep import change, fall_asleep, is_asleep
from tests.integration.vcmanager.test_snapshots import POD_A, POD_B, HostStore, store
from tests.support.account_tokens import request_account_token
from tests.support.eventually import eventually
from tests.support.processes import ProgramProcess, free_port
from vcmanager.phases.etcd import member_config
from vcmanager.pki import bundles, rotated_secrets, rotation
from vcmanager.pki.rotation import RotationWaits
from vcmanager.plan import tenant_objects
from vcmanager.reconcilers import etcd_store
from vcmanager.runtime import keys
from vcmanager.runtime.etcd_stores import StoreRecords

__all__ = ["store"]

COUNT = 3
_ROUNDS = 300
_BUMP = 900_000_000
"""Less than the number by which a restore raises the revision."""


@dataclass(kw_only=True)
class HostMembers(HostStore):
    """A tenant whose etcd has a process for each of its pods.

    A volume is a folder for each UID of a claim. The Jobs use that of the first pod.
    """

    clients: list[int] = field(default_factory=lambda: [free_port() for _ in range(COUNT)])
    peers: list[int] = field(default_factory=lambda: [free_port() for _ in range(COUNT)])
    members: dict[int, ProgramProcess] = field(default_factory=dict)
    records: StoreRecords = field(default_factory=StoreRecords)
    """Checks of etcd at the addresses of the host."""

    @property
    def peer_urls(self) -> list[str]:
        """Peer URL of each ordinal."""
        return [f"https://127.0.0.1:{port}" for port in self.peers]

    async def stop_etcd(self) -> None:
        """Stop all members."""
        while self.members:
            await self.members.popitem()[1].stop(patience=5.0)

    async def follow_pods(self) -> None:
        """Play kubelet for the pods of etcd: run a process for each."""
        root = self.stage.root(self.cluster)
        page = await self.stage.admin.list(
            resources.PODS, namespace=root, label_selector=f"{wellknown.COMPONENT}=etcd"
        )
        pods = {
            member_config.get_ordinal(each["metadata"]["name"])
            for each in page["items"]
            if "deletionTimestamp" not in each["metadata"]
        }
        for ordinal in self.members.keys() - pods:
            await self.members.pop(ordinal).stop(patience=5.0)
        for ordinal in sorted(pods - self.members.keys()):
            await self._run_member(root, ordinal)

    async def _run_member(self, root: str, ordinal: int) -> None:
        volume = await self._find_volume(root, ordinal)
        if volume is None:
            return
        config = await self.stage.admin.get(
            resources.CONFIG_MAPS, member_config.CONFIG_MAP, namespace=root
        )
        listed = config["data"]["initial-cluster"]
        for number, url in enumerate(self.peer_urls):
            listed = listed.replace(member_config.build_peer_url(number), url)
        client, peer = f"https://127.0.0.1:{self.clients[ordinal]}", self.peer_urls[ordinal]
        flags = {
            **build_etcd_flags(volume / "data", client, peer),
            "name": f"etcd-{ordinal}",
            "initial-cluster": listed,
            "initial-cluster-state": config["data"]["initial-cluster-state"],
        }
        folder = self.folder / ("etcd" if ordinal == 0 else f"etcd-{ordinal}")
        await materialise(self.stage, root, self.stateful_set, folder)
        self.members[ordinal] = start(self.stateful_set, folder, **flags)

    async def _find_volume(self, root: str, ordinal: int) -> Path | None:
        """Return the volume of a pod. None: its claim does not exist."""
        try:
            claim = await self.stage.admin.get(
                resources.PERSISTENT_VOLUME_CLAIMS, f"data-etcd-{ordinal}", namespace=root
            )
        except errors.NotFound:
            return None
        name = "volume" if ordinal == 0 else f"volume-{claim['metadata']['uid']}"
        found = self.folder / name
        found.mkdir(exist_ok=True)
        return found

    async def check_members(self) -> None:
        """Check etcd once as vc-manager does, at the addresses of the host."""
        uid = self.cluster["metadata"]["uid"]
        desired = self.stage.means.stores.get_desired(uid)
        if desired is None:
            return
        endpoints = {
            ordinal: replace(each, server=f"https://127.0.0.1:{self.clients[ordinal]}")
            for ordinal, each in desired.endpoints.items()
        }
        here = replace(desired, endpoints=endpoints, peer_urls=tuple(self.peer_urls))
        self.records.set_desired(uid, here)
        means = replace(self.stage.means, stores=self.records)
        await etcd_store.reconcile_store(means, keys.build_store_key("default", uid))
        report = self.records.get_report(uid)
        assert report is not None
        members = tuple(
            replace(each, peer_url=member_config.build_peer_url(each.ordinal))
            for each in report.members
            if each.ordinal is not None
        )
        self.stage.means.stores.set_report(uid, replace(report, members=members))

    async def settle_members(self) -> None:
        """Work until etcd has all its members and the tenant is ready."""
        report = None
        for _ in range(_ROUNDS):
            await self.stage.work(self.cluster)
            await self.stage.end_pods(self.cluster)
            with contextlib.suppress(errors.NotFound):
                await self.stage.run_pods(self.cluster)
            await self.follow_pods()
            await self.check_members()
            report = self.stage.means.stores.get_report(self.cluster["metadata"]["uid"])
            ready = await self.stage.condition(self.cluster, wellknown.ETCD_MEMBERS_READY)
            is_whole = report is not None and report.answered == set(range(COUNT))
            if is_whole and (ready or {}).get("status") == "True":
                await self.stage.bring_up(self.cluster)
                return
            await asyncio.sleep(0.2)
        tails = [each.tail() for each in self.members.values()]
        raise AssertionError(f"{report} {tails}")

    def read_members(self, key: str) -> list[str]:
        """Return the answer of each member for a key, from its own data."""
        first, found = self.port, []
        for port in self.clients:
            self.port = port
            found.append(self.etcdctl("get", key, "--consistency=s"))
        self.port = first
        return found


@pytest.fixture
async def members(stage: ManagerStage, tmp_path: Path) -> AsyncIterator[HostMembers]:
    version = cluster_version(
        "three-members", kubernetesVersion="1.36", serviceType="ClusterIP", replicas=COUNT
    )
    await stage.admin.apply(resources.CLUSTER_VERSIONS, version, field_manager="tests")
    cluster = await stage.declare(clusterVersionName="three-members", dns="none")
    await stage.bring_up(cluster)
    etcd = await stage.admin.get(resources.STATEFUL_SETS, "etcd", namespace=stage.root(cluster))
    found = HostMembers(stage=stage, cluster=cluster, folder=tmp_path, port=0, stateful_set=etcd)
    found.port, found.flags = found.clients[0], {"listen-peer-urls": found.peer_urls[0]}
    try:
        await found.settle_members()
        yield found
    finally:
        await found.stop_etcd()


async def test_a_tenant_of_three_members_is_restored_to_three_members(members: HostMembers):
    """REL-74."""
    root = members.stage.root(members.cluster)
    members.etcdctl("put", POD_A, "saved")
    snapshot = await members.save("three")
    assert snapshot["status"]["phase"] == "Complete", snapshot["status"]
    members.etcdctl("del", POD_A)
    members.etcdctl("put", POD_B, "later")
    later, before = members.revision, members.etcdctl("member", "list")
    assert before.count("started") == COUNT

    result = await members.restore("three")
    assert (result["phase"], result["reason"]) == ("Complete", "Restored"), result
    config = await members.stage.admin.get(
        resources.CONFIG_MAPS, member_config.CONFIG_MAP, namespace=root
    )
    assert re.findall("etcd-[0-9]+=", config["data"]["initial-cluster"]) == ["etcd-0="]
    await members.settle_members()
    after = members.etcdctl("member", "list")
    assert after.count("started") == COUNT
    assert not set(re.findall("^[0-9a-f]+", before, re.MULTILINE)) & set(
        re.findall("^[0-9a-f]+", after, re.MULTILINE)
    ), "a member of the old etcd is in the restored one"
    assert members.revision > later + _BUMP
    assert all("saved" in each for each in members.read_members(POD_A))
    assert members.read_members(POD_B) == [""] * COUNT


async def test_a_tenant_that_sleeps_is_restored_asleep_and_wakes_with_the_data(store: HostStore):
    """REL-74."""
    stage, cluster = store.stage, store.cluster
    store.etcdctl("put", POD_A, "saved")
    await store.save("awake")
    store.etcdctl("put", POD_B, "later")
    later = store.revision
    await change(stage, cluster, sleep={})
    await fall_asleep(stage, cluster)
    await store.stop_etcd()

    result = await store.restore("awake")
    assert (result["phase"], result["reason"]) == ("Complete", "Restored"), result
    await stage.work(cluster)
    assert await is_asleep(stage, cluster)
    assert await stage.names_of(resources.PODS, cluster) == set()
    root = await stage.admin.get(resources.NAMESPACES, stage.root(cluster))
    assert int(root["metadata"]["annotations"][wellknown.STORE_EPOCH]) >= 1000

    await change(stage, cluster, sleep=None)
    await stage.bring_up(cluster)
    store.run_etcd()
    await store.wait_for_etcd()
    assert store.revision > later + _BUMP
    assert "saved" in store.etcdctl("get", POD_A)
    assert not store.etcdctl("get", POD_B)


async def request_token(admin: Client, endpoint: Endpoint) -> Endpoint:
    """Return the API with a token of the ServiceAccount `default`."""
    token = await request_account_token(admin, "default", "default")
    return Endpoint(server=endpoint.server, ca=endpoint.ca, token=token)


async def await_token_secret(admin: Client, name: str, authority: bytes) -> str:
    """Return the token of a Secret as soon as the Secret also has an authority."""

    async def read() -> str:
        found = await admin.get(resources.SECRETS, name, namespace="default")
        is_current = bundles.read_data(found, "ca.crt").strip() == authority.strip()
        return bundles.read_data(found, "token").decode() if is_current else ""

    return await eventually(read, within=60)


def token_secret(name: str) -> Object:
    """Return a Secret in which the controllers write a token without an end."""
    annotations = {"kubernetes.io/service-account.name": "default"}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "type": "kubernetes.io/service-account-token",
    }


async def rotate_all(stage: ManagerStage, cluster: Object) -> None:
    """Rotate all authorities and the keys of ServiceAccounts, without the waits."""
    names = tuple(rotated_secrets.ROTATED_SECRETS)
    await request(stage, cluster, *names)
    await request(stage, cluster, *names, force=True)
    states: list[rotation.RotationState] = []
    for _ in range(_ROUNDS):
        await stage.work(cluster)
        await stage.end_pods(cluster)
        with contextlib.suppress(errors.NotFound):  # a Deployment was faster
            await stage.run_pods(cluster)
        states = [(await stage_of(stage, cluster, name))[0] for name in names]
        if all(state.stage == "stable" and state.requested for state in states):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"not all became stable: {states}")


@contextlib.asynccontextmanager
async def served(tenant: HostTenant) -> AsyncIterator[Client]:
    """Run API server and controllers with the Secrets as they are now. Yield the admin's client."""
    try:
        await tenant.start("apiserver")
        await tenant.await_ready()
        await tenant.start("controller-manager")
        async with Client(await tenant.endpoint("admin")) as admin:
            yield admin
    finally:
        await tenant.stop()


async def test_a_snapshot_from_before_a_rotation_is_restored_with_the_present_authorities_and_keys(
    store: HostStore, monkeypatch: pytest.MonkeyPatch
):
    """REL-74."""
    wait = timedelta(0)
    waits = {name: RotationWaits(trust=wait, drop=wait) for name in rotation.WAITS}
    monkeypatch.setattr(rotation, "WAITS", waits)
    monkeypatch.setattr(rotation, "PROPAGATION", wait)
    stage, cluster, port = store.stage, store.cluster, free_port()
    tenant = HostTenant(
        stage=stage,
        cluster=cluster,
        api_port=port,
        etcd_port=store.port,
        processes=[],
        settings=build_api_flags(port, f"https://127.0.0.1:{store.port}"),
        folder=store.folder,
    )
    old_authority = (await tenant.pair("root-ca")).certificate
    async with served(tenant) as admin, Client(await tenant.endpoint("manager")) as manager:
        old_admin = await tenant.endpoint("admin")
        await tenant_objects.apply_objects(manager, dns_address="")
        await eventually(lambda: tenant_objects.has_controllers(manager), within=60)
        await admin.create(resources.CONFIG_MAPS, named("saved"), namespace="default")
        await admin.create(resources.SECRETS, token_secret("ci"), namespace="default")
        old_secret = await await_token_secret(admin, "ci", old_authority)
        old_token = await request_token(admin, old_admin)
        for token in (old_token, replace(old_token, token=old_secret)):
            async with Client(token) as account:
                name = (await who(account))["username"]
                assert name == "system:serviceaccount:default:default"
        snapshot = await store.save("before-rotation")
        assert snapshot["status"]["phase"] == "Complete", snapshot["status"]
        await admin.create(resources.CONFIG_MAPS, named("later"), namespace="default")

    await rotate_all(stage, cluster)
    result = await store.restore("before-rotation")
    assert (result["phase"], result["reason"]) == ("Complete", "Restored"), result
    await store.write_files()
    store.run_etcd()
    await store.wait_for_etcd()
    authority = (await tenant.pair("root-ca")).certificate
    assert authority != old_authority
    async with served(tenant) as admin:
        assert (await who(admin))["groups"] == ["tenancy:admins", "system:authenticated"]
        assert await is_refused(replace(old_admin, ca=authority))
        await admin.get(resources.CONFIG_MAPS, "saved", namespace="default")
        with pytest.raises(errors.NotFound):
            await admin.get(resources.CONFIG_MAPS, "later", namespace="default")
        # The snapshot has the old authority and the old token. Controllers replace the authority.
        assert await await_token_secret(admin, "ci", authority) == old_secret
        for text in (old_token.token, old_secret):
            assert await is_refused(replace(old_token, ca=authority, token=text))

        async def is_published() -> bool:
            found = await admin.get(resources.CONFIG_MAPS, "kube-root-ca.crt", namespace="default")
            return found["data"]["ca.crt"].strip() == authority.decode().strip()

        await eventually(is_published, within=60)
        await admin.delete(resources.SECRETS, "ci", namespace="default")
        await admin.create(resources.SECRETS, token_secret("ci"), namespace="default")
        fresh = await await_token_secret(admin, "ci", authority)
        token = await request_token(admin, await tenant.endpoint("admin"))
        for each in (token, replace(token, token=fresh)):
            async with Client(each) as account:
                assert (await who(account))["username"] == "system:serviceaccount:default:default"
        # vc-manager's own objects in the tenant are those of the snapshot until now.
        async with Client(await tenant.endpoint("manager")) as manager:
            monkeypatch.setattr(stage.tenants, "client", manager)
            await stage.bring_up(cluster)
        condition = await stage.condition(cluster, "CertificatesReady")
        assert (condition or {}).get("status") == "True", condition


def named(name: str) -> Object:
    """Return a ConfigMap."""
    return {"metadata": {"name": name, "namespace": "default"}, "data": {"key": "value"}}
