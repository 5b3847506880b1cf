"""A tenant's control plane as real programs on loopback, with the files of its pods.

It stands for kubelet and containers: a process for each program, with a folder for its files.
"""

import base64
import contextlib
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.config import loading
from kubeio.config.endpoint import Endpoint
from tenancy import resources
from tenancy.resources import Resource
from tests.integration.vcmanager.conftest import ManagerStage
from tests.support.eventually import eventually
from tests.support.processes import ProgramProcess, free_port
from tools.testbed.artifacts import binaries
from vcmanager.pki import bundles
from vcmanager.pki.inventory import CertificateFacts
from vcmanager.plan import tenant_objects

PROGRAMS = {
    "etcd": "etcd",
    "apiserver": "kube-apiserver",
    "controller-manager": "kube-controller-manager",
}
REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False)


@dataclass(frozen=True, kw_only=True)
class HostTenant:
    """A tenant's control plane on loopback."""

    stage: ManagerStage
    cluster: Object
    api_port: int
    etcd_port: int
    processes: list[ProgramProcess]
    settings: Mapping[str, Mapping[str, str]]
    """Flags of each component on loopback, in the order of its start."""
    folder: Path
    """A folder per component, with the files of its pod."""

    @property
    def server(self) -> str:
        """Where the API is."""
        return f"https://127.0.0.1:{self.api_port}"

    @property
    def certificate_facts(self) -> CertificateFacts:
        """Return facts that give the names of its certificates' Secrets."""
        return CertificateFacts(
            root=self.stage.root(self.cluster),
            uid=self.cluster["metadata"]["uid"],
            name="t",
            domain="cluster.local",
            api_address="10.0.0.1",
        )

    async def pair(self, secret: str):
        """Return a certificate and its key."""
        found = bundles.read_key_pair(await self.stage.secret(self.cluster, secret))
        assert found is not None
        return found

    async def endpoint(self, credential: str) -> Endpoint:
        """Return the API as one of the kubeconfigs shows it, but for the address."""
        name = f"{credential}-kubeconfig"
        secret = await self.stage.secret(self.cluster, name)
        found = loading.load_tenant_kubeconfig(bundles.read_data(secret, name))
        assert found.strict
        return replace(found, server=self.server, tls_server_name="")

    async def start(self, *components: str) -> None:
        """Start components, as their StatefulSets are now and with the Secrets as they are now."""
        root = self.stage.root(self.cluster)
        for name in components or self.settings:
            stateful_set = await self.stage.admin.get(resources.STATEFUL_SETS, name, namespace=root)
            folder = self.folder / name
            await materialise(self.stage, root, stateful_set, folder)
            for file in folder.rglob("controller-manager-kubeconfig"):
                server = f"server: {self.server}"
                file.write_text(re.sub(r"server: \S+", server, file.read_text()))
            self.processes.append(start(stateful_set, folder, **self.settings[name]))

    async def stop(self) -> None:
        """End all components, the last one first."""
        while self.processes:
            await self.processes.pop().stop(patience=3.0)

    async def await_ready(self) -> None:
        """Wait until the API server is ready. Raises RuntimeError when a component has ended."""
        async with Client(await self.endpoint("manager")) as manager:

            async def is_ready() -> bytes:
                for process in self.processes:
                    if process.has_ended:
                        raise RuntimeError(process.tail())
                return await manager.raw("GET", "/readyz")

            await eventually(is_ready, within=60)


async def materialise(stage: ManagerStage, root: str, stateful_set: Object, folder: Path) -> None:
    """Write the files that the first container would see, where it would see them."""
    pod_spec = stateful_set["spec"]["template"]["spec"]
    mounts = {each["name"]: each["mountPath"] for each in pod_spec["containers"][0]["volumeMounts"]}
    for volume in pod_spec["volumes"]:
        if volume["name"] not in mounts:
            continue
        at = folder / mounts[volume["name"]].lstrip("/")
        at.mkdir(parents=True, exist_ok=True)
        for source in (volume.get("projected") or {}).get("sources") or [volume]:
            for kind, resource in (
                ("secret", resources.SECRETS),
                ("configMap", resources.CONFIG_MAPS),
            ):
                if kind not in source:
                    continue
                name = source[kind].get("secretName") or source[kind]["name"]
                try:
                    found = await stage.admin.get(resource, name, namespace=root)
                except errors.NotFound:
                    if source[kind].get("optional"):
                        continue
                    raise
                for item in source[kind].get("items") or [
                    {"key": key, "path": key} for key in found["data"]
                ]:
                    value = found["data"][item["key"]]
                    path = at / item["path"]
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(
                        base64.b64decode(value) if kind == "secret" else value.encode()
                    )


def start(stateful_set: Object, folder: Path, **changes: str) -> ProgramProcess:
    """Start a program as its container would, with files in `folder` and other addresses.

    The program is of the minor that the container's image has.
    """
    name = stateful_set["metadata"]["name"]
    container = stateful_set["spec"]["template"]["spec"]["containers"][0]
    words = container["args"]
    words = [word for word in words if word.lstrip("-").partition("=")[0] not in changes]
    words += [f"--{key}={value}" for key, value in changes.items()]
    words = [re.sub(r"/etc/kubernetes", f"{folder}/etc/kubernetes", word) for word in words]
    words = [re.sub(r"\$\((POD_NAME|HOSTNAME)\)", f"{name}-0", word) for word in words]
    found = re.search(r":v(1\.[0-9]+)\.", container["image"])
    program = binaries.path(PROGRAMS[name], found[1] if found else None)
    return ProgramProcess([str(program), *words], folder / f"{name}.log")


def build_etcd_flags(data: Path, client: str, peer: str) -> dict[str, str]:
    """Return the flags of one etcd on loopback: its folder, and its URLs for clients and peers."""
    return {
        "data-dir": str(data),
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"etcd-0={peer}",
        "listen-metrics-urls": f"http://127.0.0.1:{free_port()}",
    }


def build_api_flags(port: int, etcd: str) -> dict[str, dict[str, str]]:
    """Return the flags of API server and controller manager on loopback, by component."""
    return {
        "apiserver": {
            "bind-address": "127.0.0.1",
            "secure-port": str(port),
            "etcd-servers": etcd,
            "endpoint-reconciler-type": "none",
        },
        "controller-manager": {"secure-port": "0", "leader-elect": "false"},
    }


@contextlib.asynccontextmanager
async def on_host(stage: ManagerStage, cluster: Object, folder: Path) -> AsyncIterator[HostTenant]:
    await stage.bring_up(cluster)
    etcd_port, peer_port, api_port = free_port(), free_port(), free_port()
    client, peer = f"https://127.0.0.1:{etcd_port}", f"https://127.0.0.1:{peer_port}"
    tenant = HostTenant(
        stage=stage,
        cluster=cluster,
        api_port=api_port,
        etcd_port=etcd_port,
        processes=[],
        settings={
            "etcd": build_etcd_flags(folder / "data", client, peer),
            **build_api_flags(api_port, client),
        },
        folder=folder,
    )
    try:
        await tenant.start("etcd", "apiserver")
        await tenant.await_ready()
        await tenant.start("controller-manager")
        async with Client(await tenant.endpoint("manager")) as manager:
            assert (await stage.fresh(cluster))["status"]["serviceCidr"]
            await tenant_objects.apply_objects(manager, dns_address="")
            await eventually(lambda: tenant_objects.has_controllers(manager), within=60)
        yield tenant
    finally:
        await tenant.stop()


async def who(client: Client) -> Object:
    answer = await client.create(
        REVIEWS, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    )
    return answer["status"]["userInfo"]
