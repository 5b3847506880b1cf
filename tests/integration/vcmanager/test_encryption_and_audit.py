"""Encryption at rest and the audit log of a tenant, by a real API server with the rendered files.

T2-17: otherwise a node's disk or a snapshot has the Secrets in clear, and no request is recorded.
"""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from kubeio.api.client import Client
from tenancy import resources
from tests.integration.vcmanager.conftest import NAMESPACE, ManagerStage, cluster_version
from tests.support.controlplane import LocalControlPlane, running
from tests.support.names import fresh_name
from tools.testbed.artifacts import binaries


async def written_api_server(stage: ManagerStage, cluster: Any, folder: Path) -> dict[str, str]:
    """Write the files that the API server's pod mounts. Return its flags about them."""
    await stage.bring_up(cluster)
    root = stage.root(cluster)
    found = await stage.admin.get(resources.STATEFUL_SETS, "apiserver", namespace=root)
    pod = found["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    volumes = {each["name"]: each for each in pod["volumes"]}
    flags = dict(
        flag.removeprefix("--").split("=", 1)
        for flag in container["args"]
        if flag.startswith(("--audit", "--encryption"))
    )
    for mount in container["volumeMounts"]:
        if mount["name"] not in ("config", "encryption", "audit-log"):
            continue
        at = folder / mount["name"]
        at.mkdir(exist_ok=True)
        volume = volumes[mount["name"]]
        if "secret" in volume:
            secret = await stage.secret(cluster, volume["secret"]["secretName"])
            for item in volume["secret"]["items"]:
                content = base64.b64decode(secret["data"][item["key"]])
                (at / item["path"]).write_bytes(content)
        elif "configMap" in volume:
            name = volume["configMap"]["name"]
            config = await stage.admin.get(resources.CONFIG_MAPS, name, namespace=root)
            for key, text in config["data"].items():
                (at / key).write_text(text)
        flags = {
            key: value.replace(mount["mountPath"], str(at)) if value.startswith("/") else value
            for key, value in flags.items()
        }
    return flags


async def stored(plane: LocalControlPlane, name: str) -> bytes:
    """Return a Secret as etcd has it."""
    arguments = [f"--endpoints={plane.etcd}", "get", "--print-value-only"]
    process = await asyncio.create_subprocess_exec(
        str(binaries.path("etcdctl")),
        *arguments,
        f"/registry/secrets/default/{name}",
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    return output


async def create_secret(plane: LocalControlPlane, name: str) -> None:
    body = {
        "metadata": {"name": name, "namespace": "default"},
        "stringData": {"password": "correct horse"},
    }
    async with Client(plane.endpoint_for("carol", group="system:masters")) as client:
        await client.create(resources.SECRETS, body)


async def read_password(plane: LocalControlPlane, name: str) -> bytes:
    async with Client(plane.endpoint) as client:
        found = await client.get(resources.SECRETS, name, namespace="default")
        return base64.b64decode(found["data"]["password"])


async def test_secrets_are_encrypted_in_etcd_and_another_provider_still_reads_them(
    stage: ManagerStage, tmp_path: Path
):
    """T2-17, SEC-83."""
    version = fresh_name("cv")
    await stage.admin.create(
        resources.CLUSTER_VERSIONS,
        cluster_version(version, kubernetesVersion="1.36", encryption={"provider": "aescbc"}),
    )
    cluster = await stage.declare(clusterVersionName=version)
    flags = await written_api_server(stage, cluster, tmp_path)
    tenant = LocalControlPlane(tmp_path / "tenant", api_args=flags)
    async with running(tenant):
        await create_secret(tenant, "first")
        assert (await stored(tenant, "first")).startswith(b"k8s:enc:aescbc:v1:key1:")
        assert b"correct horse" not in await stored(tenant, "first")
        assert await read_password(tenant, "first") == b"correct horse"

        await stage.admin.patch(
            resources.CLUSTER_VERSIONS, version, {"spec": {"encryption": {"provider": "secretbox"}}}
        )
        before = await stage.secret(cluster, "encryption-keys")
        assert await written_api_server(stage, cluster, tmp_path) == flags
        await tenant.stop_apiserver()
        await tenant.start()
        await create_secret(tenant, "second")
        assert (await stored(tenant, "second")).startswith(b"k8s:enc:secretbox:v1:key1:")
        assert await read_password(tenant, "first") == b"correct horse"

    after = await stage.secret(cluster, "encryption-keys")
    assert after["data"]["aescbc.key"] == before["data"]["aescbc.key"]
    # Lost keys are never replaced by new ones.
    await stage.admin.delete(resources.SECRETS, "encryption-keys", namespace=stage.root(cluster))
    await stage.work(cluster)
    ready = await stage.condition(cluster, "Ready")
    assert (ready or {}).get("reason") == "EncryptionKeysLost"
    assert "encryption-keys" not in await stage.names_of(resources.SECRETS, cluster)
    await stage.tear_down(cluster)


@pytest.mark.parametrize("output", ["File", "Stdout"])
async def test_a_request_leaves_a_line_with_its_user_and_without_the_secret(
    stage: ManagerStage, tmp_path: Path, output: str
):
    """T2-17, SEC-84."""
    version = fresh_name("cv")
    audit = {"level": "RequestResponse", "log": {"output": output}}
    await stage.admin.create(
        resources.CLUSTER_VERSIONS, cluster_version(version, kubernetesVersion="1.36", audit=audit)
    )
    cluster = await stage.declare(clusterVersionName=version)
    flags = await written_api_server(stage, cluster, tmp_path)
    tenant = LocalControlPlane(tmp_path / "tenant", api_args=flags)
    async with running(tenant):
        await create_secret(tenant, "password")
    log = tmp_path / ("audit-log/audit.log" if output == "File" else "tenant/apiserver.log")
    lines = [line for line in log.read_text().splitlines() if '"audit.k8s.io/v1"' in line]
    (event,) = [
        event
        for event in map(json.loads, lines)
        if event["verb"] == "create" and event["objectRef"].get("name") == "password"
    ]
    assert event["user"]["username"] == "carol"
    assert event["level"] == "Metadata"
    assert "correct horse" not in log.read_text()
    assert base64.b64encode(b"correct horse").decode() not in log.read_text()
    await stage.tear_down(cluster)


async def test_pull_secrets_and_the_audit_webhook_are_copied_by_type_alone(stage: ManagerStage):
    """A Secret of another type, such as an authority of the agents, is never copied."""
    name, other, version = fresh_name("pull"), fresh_name("other"), fresh_name("cv")
    document = base64.b64encode(b'{"auths": {}}').decode()
    for secret, kind in ((name, "kubernetes.io/dockerconfigjson"), (other, "Opaque")):
        await stage.admin.create(
            resources.SECRETS,
            {
                "metadata": {"name": secret, "namespace": NAMESPACE},
                "type": kind,
                "data": {".dockerconfigjson": document},
            },
        )
    await stage.admin.create(
        resources.CLUSTER_VERSIONS,
        cluster_version(version, kubernetesVersion="1.36", imagePullSecrets=[{"name": other}]),
    )
    cluster = await stage.declare(clusterVersionName=version)
    await stage.work(cluster, 2)
    ready = await stage.condition(cluster, "Ready")
    assert (ready or {}).get("reason") == "SecretNotFound"
    assert f"pull-{other}" not in await stage.names_of(resources.SECRETS, cluster)
    await stage.admin.patch(
        resources.CLUSTER_VERSIONS, version, {"spec": {"imagePullSecrets": [{"name": name}]}}
    )
    await stage.bring_up(cluster)
    assert (await stage.secret(cluster, f"pull-{name}"))["data"] == {".dockerconfigjson": document}
    await stage.tear_down(cluster)
