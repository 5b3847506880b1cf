"""A tenant's kubeconfig file, renewed during a rotation of the authority `serving`."""

import base64
import io
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from kubectl_vc.client import server_authority
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.output.terminal import Terminal
from kubectl_vc.verbs import scoped_kubeconfig
from kubeio import errors
from kubeio.api.client import Client
from kubeio.config import loading
from tenancy import resources
from tests.integration.vcmanager.conftest import ManagerStage
from tests.integration.vcmanager.hosted_control_plane import HostTenant, on_host, who
from tests.integration.vcmanager.test_rotation import request, roll, stage_of
from tests.support.eventually import eventually
from vcmanager.pki import bundles, inventory, rotation
from vcmanager.pki.rotation import RotationWaits

_WAIT = timedelta(seconds=1)


async def read_own_file(tenant: HostTenant) -> bytes:
    """Return the admin kubeconfig with the address on loopback."""
    secret = await tenant.stage.secret(tenant.cluster, "admin-kubeconfig")
    document = yaml.safe_load(bundles.read_data(secret, "admin-kubeconfig"))
    cluster = document["clusters"][0]["cluster"]
    cluster["server"] = tenant.server
    cluster.pop("tls-server-name", None)
    return yaml.safe_dump(document).encode()


def count_authorities(content: bytes) -> int:
    cluster = yaml.safe_load(content)["clusters"][0]["cluster"]
    return base64.b64decode(cluster["certificate-authority-data"]).count(b"BEGIN CERTIFICATE")


async def restart(tenant: HostTenant) -> None:
    await tenant.stop()
    await tenant.start("etcd", "apiserver")
    await tenant.await_ready()
    await tenant.start("controller-manager")


@pytest.mark.thorough
async def test_a_renewed_file_reaches_the_server_after_a_rotation_of_serving(
    stage: ManagerStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        rotation,
        "WAITS",
        {name: RotationWaits(trust=_WAIT, drop=timedelta(hours=1)) for name in rotation.WAITS},
    )
    cluster = await stage.declare(dns="none")
    async with on_host(stage, cluster, tmp_path / "host") as tenant:
        before = await read_own_file(tenant)
        renewed, kept = tmp_path / "renewed", tmp_path / "kept"
        for path in (renewed, kept):
            path.write_bytes(before)
        await request(stage, cluster, inventory.SERVING)
        await roll(stage, cluster)
        await restart(tenant)

        async def is_published() -> bool:
            async with Client(await tenant.endpoint("manager")) as manager:
                found = await manager.get(
                    resources.CONFIG_MAPS, "kube-root-ca.crt", namespace="kube-public"
                )
            return bool(found["data"]["ca.crt"].count("BEGIN CERTIFICATE") == 2)

        await eventually(is_published, within=60)
        out, err = io.StringIO(), io.StringIO()
        terminal = Terminal(out, err)
        await scoped_kubeconfig.run_renew(ConfigFlags(), terminal, renewed)
        assert err.getvalue() == ""
        assert count_authorities(renewed.read_bytes()) == 2

        for _ in range(100):
            await roll(stage, cluster)
            if (await stage_of(stage, cluster, inventory.SERVING))[0].stage == "issue-new":
                break
        await roll(stage, cluster)
        await restart(tenant)
        for path, is_trusted in ((renewed, True), (kept, False)):
            endpoint = replace(loading.load_tenant_kubeconfig(path.read_bytes()), strict=True)
            async with Client(endpoint) as client:
                if is_trusted:
                    assert (await who(client))["username"] == "admin"
                else:
                    with pytest.raises(errors.Unavailable):
                        await who(client)

        # The file keeps its CA if the published one does not verify the server.
        monkeypatch.setattr(
            server_authority,
            "fetch_authorities",
            lambda _: _read_other(tenant),
        )
        await scoped_kubeconfig.run_renew(ConfigFlags(), terminal, renewed)
        assert count_authorities(renewed.read_bytes()) == 2
        assert "The CA in the file is kept" in err.getvalue()


async def _read_other(tenant: HostTenant) -> bytes:
    found = await tenant.pair(inventory.AUTHORITIES[inventory.ETCD])
    return bytes(found.certificate)
