"""A tenant whose leaf certificates have all ended, under the real programs: vc-manager mends it.

The certificates are issued three days ago by the clock of vc-manager, for one day. The programs
have the clock of the machine, so they refuse each other until vc-manager works at the present time.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.config import loading
from tenancy import resources
from tests.integration.vcmanager.conftest import ManagerStage
from tests.integration.vcmanager.hosted_control_plane import who
from tests.integration.vcmanager.test_rotation_on_host import HostPlane
from vcmanager.pki import bundles, inventory
from vcmanager.pki.inventory import CertificateFacts

AGE = timedelta(days=3)
CREDENTIALS = ("admin", "manager", "syncer")
_ROUNDS = 400


@dataclass
class HostClients:
    """Clients of the tenant's real API server, by the kubeconfigs that vc-manager issued."""

    plane: HostPlane
    clients: dict[bytes, Client] = field(default_factory=dict)

    async def get(self, _uid: str, kubeconfig: bytes, **_: object) -> Client:
        """Return the client of a kubeconfig."""
        if kubeconfig not in self.clients:
            found = loading.load_tenant_kubeconfig(kubeconfig)
            server = f"https://127.0.0.1:{self.plane.ports['apiserver-0']}"
            client = Client(replace(found, server=server, tls_server_name=""))
            self.clients[kubeconfig] = await client.__aenter__()
        return self.clients[kubeconfig]

    async def drop(self, _uid: str) -> None:
        """Keep the clients. `stop` closes them."""

    async def stop(self) -> None:
        """Close all clients."""
        for client in self.clients.values():
            await client.__aexit__(None, None, None)


async def list_ends(stage: ManagerStage, cluster: Object) -> dict[str, datetime]:
    """Return the end of each leaf, by the name of its Secret."""
    facts = CertificateFacts(
        root=stage.root(cluster),
        uid=cluster["metadata"]["uid"],
        name=cluster["metadata"]["name"],
        domain="cluster.local",
        api_address="10.0.0.1",
    )
    pairs = {
        row.secret: bundles.read_key_pair(await stage.secret(cluster, row.secret))
        for row in inventory.list_leaves(facts)
    }
    for login in inventory.list_logins(facts):
        with contextlib.suppress(errors.NotFound):  # a component that the tenant does not have
            data = bundles.read_data(await stage.secret(cluster, login.secret), login.secret)
            pairs[login.secret] = bundles.read_kubeconfig_key_pair(data)
    return {
        name: x509.load_pem_x509_certificate(pair.certificate).not_valid_after_utc
        for name, pair in pairs.items()
        if pair is not None
    }


async def start_ended(plane: HostPlane) -> None:
    """Play kubelet: write the files of all pods, and start programs that ended or must restart."""
    for name, component in (
        ("etcd", "etcd"),
        ("apiserver-0", "apiserver"),
        ("controller-manager", "controller-manager"),
    ):
        process = plane.running.get(name)
        found = await plane.stage.admin.get(
            resources.STATEFUL_SETS, component, namespace=plane.stage.root(plane.cluster)
        )
        await plane.write_files(name, found)
        digest = plane.read_digest(found)
        if process is None or process.has_ended or plane.digests.get(name) != digest:
            plane.digests[name] = digest
            if process is not None:
                await process.stop(patience=5.0)
            plane.running[name] = plane.start(name, found)


async def is_answering(plane: HostPlane, credential: str) -> bool:
    """Return whether the API server accepts a credential."""
    try:
        async with Client(await plane.endpoint(credential)) as client:
            await who(client)
    except errors.KubeError:
        return False
    return True


@pytest.mark.timeout(900)
async def test_a_tenant_whose_leaves_have_all_ended_becomes_ready_with_no_hand(
    stage: ManagerStage, tmp_path: Path
):
    start = datetime.now(UTC)
    past = replace(stage, means=replace(stage.means, now=lambda: start - AGE))
    cluster = await past.declare(dns="none", pkiExpireDays=1)
    await past.bring_up(cluster)
    ends = await list_ends(stage, cluster)
    assert len(ends) >= 6, ends
    assert max(ends.values()) < start, "every leaf is over"

    plane = HostPlane(stage, cluster, tmp_path)
    clients = HostClients(plane)
    present = replace(stage, means=replace(stage.means, tenant_clients=clients))  # type: ignore[arg-type]
    try:
        await start_ended(plane)
        await asyncio.sleep(3)
        assert not await is_answering(plane, "manager"), "the programs refuse ended certificates"

        ready = None
        for _ in range(_ROUNDS):
            with contextlib.suppress(errors.KubeError):  # the queue repeats such a reconcile
                await present.work(cluster)
            await stage.end_pods(cluster)
            with contextlib.suppress(errors.NotFound):  # a controller was faster
                await stage.run_pods(cluster)
            await start_ended(plane)
            ready = await stage.condition(cluster, "Ready")
            is_new = min((await list_ends(stage, cluster)).values()) > start
            if is_new and ready and ready["status"] == "True":
                answers = [await is_answering(plane, each) for each in CREDENTIALS]
                if all(answers):
                    break
            await asyncio.sleep(0.5)
        else:
            raise AssertionError(f"{ready} {plane.running['apiserver-0'].tail()}")
        condition = await stage.condition(cluster, "CertificatesReady")
        assert condition is not None
        assert condition["status"] == "True"
    finally:
        await clients.stop()
        for process in plane.running.values():
            await process.stop(patience=3.0)
