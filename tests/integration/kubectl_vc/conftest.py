"""The command line as people run it, against a real API server that has the CRDs.

No one reconciles here: the tests write the conditions that the manager would write.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubectl_vc.target.manifests import TargetObjects
from kubeio import Object
from kubeio.api.client import Client
from kubeio.config import secret_kubeconfig
from tenancy import names, ownership, wellknown
from tenancy.ownership import Tenant
from tenancy.resources import (
    CLUSTER_VERSIONS,
    EVENTS,
    NAMESPACES,
    PODS,
    SECRETS,
    SUPER_CLUSTERS,
    VIRTUAL_CLUSTERS,
)
from tests.support.controlplane import LocalControlPlane, serving
from tests.support.declared_tenants import install_crds
from tests.support.eventually import eventually
from tests.support.kubectl_vc.command_runner import invoke
from tests.support.names import fresh_name, fresh_namespace

PROGRAM = Path(sys.executable).parent / "kubectl-vc"
VERSION = "v1.36"
OTHER_SERVER = "https://c2.example.org:6443"
"""Where the components would reach the other cluster. It is not asked here."""
HOSTILE = "<script>alert(1)</script>\u202etxt"


@dataclass(frozen=True)
class FinishedCommand:
    """The result of a command."""

    code: int
    out: str
    err: str


@dataclass
class RunningCommand:
    """A command on its way."""

    process: asyncio.subprocess.Process

    async def end(self, *, within: float = 60) -> FinishedCommand:
        """Wait for its end."""
        try:
            out, err = await asyncio.wait_for(self.process.communicate(), within)
        except TimeoutError:
            self.process.kill()
            await self.process.communicate()
            raise
        assert self.process.returncode is not None
        return FinishedCommand(self.process.returncode, out.decode(), err.decode())


def _heed_interrupts() -> None:
    """A program started in the background of a shell ignores them, and hands that on."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@dataclass(kw_only=True)
class UserTerminal:
    """One person's terminal, a namespace of its own, and the manager's hand."""

    client: Client
    plane: LocalControlPlane
    folder: Path
    namespace: str
    environment: dict[str, str] = field(default_factory=dict)

    async def start(self, *words: str) -> RunningCommand:
        """Start a command as a program of its own, to do something while it runs."""
        environment = {**os.environ, **self._environment()}
        process = await asyncio.create_subprocess_exec(
            PROGRAM,
            *words,
            cwd=self.folder,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            preexec_fn=_heed_interrupts,
        )
        return RunningCommand(process)

    async def run(self, *words: str) -> FinishedCommand:
        """Run a command to its end, inside of this process, which is ten times as fast."""

        def finish() -> FinishedCommand:
            with contextlib.chdir(self.folder):
                done = invoke(*words, env=self._environment())
            return FinishedCommand(done.exit_code, done.stdout, done.stderr)

        return await asyncio.to_thread(finish)

    def _environment(self) -> dict[str, str]:
        return {"KUBECONFIG": str(self.folder / "super"), **self.environment}

    def become(self, user: str, group: str = "") -> None:
        """Let the following commands run as another owner."""
        path = self.folder / user
        path.write_bytes(self.plane.kubeconfig(user, group=group))
        self.environment["KUBECONFIG"] = str(path)

    def manifest(self, *documents: dict[str, Any], name: str = "vc.yaml") -> str:
        """Write a file and return its name."""
        (self.folder / name).write_text(yaml.safe_dump_all(documents))
        return name

    def virtual_cluster(self, name: str = "web", **spec: Any) -> dict[str, Any]:
        """Return a VirtualCluster."""
        return {
            "apiVersion": VIRTUAL_CLUSTERS.api_version,
            "kind": "VirtualCluster",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"clusterVersionName": VERSION, **spec},
        }

    async def make(self, name: str = "web", **spec: Any) -> Object:
        """Create a VirtualCluster without the command line."""
        return await self.client.create(VIRTUAL_CLUSTERS, self.virtual_cluster(name, **spec))

    async def fetch(self, name: str = "web") -> Object:
        """Return a VirtualCluster once it is there."""
        return await eventually(
            lambda: self.client.get(VIRTUAL_CLUSTERS, name, namespace=self.namespace), within=20
        )

    async def is_there(self, name: str = "web") -> bool:
        """Return whether a VirtualCluster is there."""
        found = await self.client.list(VIRTUAL_CLUSTERS, namespace=self.namespace)
        return name in [each["metadata"]["name"] for each in found["items"]]

    async def report(self, name: str = "web", **conditions: tuple[str, str, str]) -> None:
        """Write conditions as the manager does: type=(status, reason, message)."""
        body = await self.fetch(name)
        written = [
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": message,
                "observedGeneration": body["metadata"]["generation"],
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            for kind, (status, reason, message) in conditions.items()
        ]
        await self.client.patch(
            VIRTUAL_CLUSTERS,
            name,
            {"status": {"conditions": written}},
            namespace=self.namespace,
            subresource="status",
        )

    async def root(self, name: str = "web") -> str:
        """Return the root namespace, made when it is not there."""
        body = await self.fetch(name)
        root = names.build_root_namespace(self.namespace, name, body["metadata"]["uid"])
        found = await self.client.list(NAMESPACES, field_selector=f"metadata.name={root}")
        if not found["items"]:
            space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": root}}
            await self.client.create(NAMESPACES, space)
        return root

    async def hand_out(self, name: str = "web", content: bytes | None = None) -> bytes:
        """Put a kubeconfig where the manager puts it, and return it."""
        content = content if content is not None else self.plane.kubeconfig("tenant-admin")
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "admin-kubeconfig", "namespace": await self.root(name)},
            "stringData": {"admin-kubeconfig": content.decode()},
        }
        await self.client.create(SECRETS, secret)
        return content

    def files(self) -> set[str]:
        """Return the files beside the person's own."""
        return {each.name for each in self.folder.iterdir()} - {"super"}


@pytest.fixture(scope="package")
def plane_with_crds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalControlPlane]:
    """An API server with our kinds and one ClusterVersion."""

    async def furnish(client: Client) -> None:
        await install_crds(client)
        version = {
            "apiVersion": CLUSTER_VERSIONS.api_version,
            "kind": "ClusterVersion",
            "metadata": {"name": VERSION},
            "spec": {"kubernetesVersion": "1.36"},
        }
        await eventually(lambda: client.create(CLUSTER_VERSIONS, version))
        await eventually(lambda: client.list(VIRTUAL_CLUSTERS))

    plane = LocalControlPlane(tmp_path_factory.mktemp("cli"), name="super")
    with serving(plane, furnish):
        yield plane


@pytest.fixture
async def desk(plane_with_crds: LocalControlPlane, tmp_path: Path) -> AsyncIterator[UserTerminal]:
    """A person who may do everything."""
    (tmp_path / "super").write_bytes(plane_with_crds.kubeconfig())
    async with Client(plane_with_crds.endpoint) as client:
        namespace = await fresh_namespace(client, "d")
        yield UserTerminal(
            client=client, plane=plane_with_crds, folder=tmp_path, namespace=namespace
        )


@dataclass
class Stage:
    """One tenant with a namespace. The same API server is the super cluster and the tenant."""

    desk: UserTerminal
    tenant: Tenant
    space: str
    """Namespace in the tenant."""

    @property
    def super_namespace(self) -> str:
        return names.build_super_namespace(self.tenant.root, self.tenant.uid, self.space)

    @property
    def place(self) -> tuple[str, str]:
        return self.tenant.namespace, self.tenant.name

    async def write_pod(self, name: str) -> Object:
        """Create a pod of the tenant."""
        body = pod(name, self.space)
        return await self.desk.client.create(PODS, body)

    async def copy(self, body: Object, *, node: str = "", **fields: Any) -> Object:
        """Create the copy of a pod, as the syncer does."""
        uid = fields.get("uid", body["metadata"]["uid"])
        found = pod(body["metadata"]["name"], self.super_namespace, node=node)
        found["metadata"] |= {
            "labels": ownership.build_owner_labels(self.tenant, self.space),
            "annotations": ownership.build_owner_annotations(self.tenant, self.space, uid),
        }
        return await self.desk.client.create(PODS, found)

    async def report(self, body: Object, reason: str, message: str, kind: str = "Pod") -> None:
        """Write an Event about an object, as the syncer does."""
        metadata = body["metadata"]
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": "e-", "namespace": metadata["namespace"]},
            "involvedObject": {
                "kind": kind,
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "type": "Warning",
            "reason": reason,
            "message": message,
            "lastTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "source": {"component": wellknown.SYNCER},
        }
        await self.desk.client.create(EVENTS, event)


def pod(name: str, namespace: str, *, node: str = "") -> Object:
    """Return a pod."""
    spec: dict[str, Any] = {"containers": [{"name": "a", "image": "a"}]}
    if node:
        spec["nodeName"] = node
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def build_stage(
    desk: UserTerminal, space: str, synced: tuple[str, str, str] = ("False", "Stopped", HOSTILE)
) -> Stage:
    """Create a tenant that is ready, with its admin kubeconfig and one synced namespace."""
    body = await desk.make()
    await desk.report(Ready=("True", "Ready", "all is well"), Synced=synced)
    metadata = body["metadata"]
    root = await desk.root()
    tenant = Tenant(
        name=metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"], root=root
    )
    await desk.hand_out(content=desk.plane.kubeconfig())
    found = Stage(desk, tenant, space)
    super_space: Object = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": found.super_namespace,
            "labels": ownership.build_owner_labels(tenant, found.space),
            "annotations": ownership.build_owner_annotations(tenant, found.space, "u"),
        },
    }
    await desk.client.create(NAMESPACES, super_space)
    return found


@pytest.fixture
async def stage(desk: UserTerminal) -> Stage:
    """A tenant that is ready, with one synced namespace."""
    return await build_stage(desk, await fresh_namespace(desk.client, "shop"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalControlPlane]:
    """The other cluster. Its controllers write tokens, remove namespaces and aggregate roles."""
    made = LocalControlPlane(
        tmp_path_factory.mktemp("other"),
        name="other",
        controllers=(
            "serviceaccount-token-controller",
            "namespace-controller",
            "clusterrole-aggregation-controller",
        ),
    )
    with serving(made):
        yield made


@dataclass(kw_only=True)
class TwoClusterUser:
    """A person with kubeconfigs of both clusters."""

    desk: UserTerminal
    there: Client
    other: LocalControlPlane
    name: str
    plan: TargetObjects

    async def join(self, *more: str, server: str = OTHER_SERVER):
        """Join without waiting for a manager that is not there."""
        return await self.desk.run(
            *("target", "join", self.name, "--target-kubeconfig", "other"),
            *("--manager-namespace", self.desk.namespace, "--no-wait"),
            *(["--server", server] if server else []),
            *more,
        )

    async def leave(self, *more: str):
        """Leave again."""
        return await self.desk.run(
            *("target", "leave", self.name, "--manager-namespace", self.desk.namespace), *more
        )

    async def credentials(self):
        """Return the endpoint that the Secret describes."""
        found = await self.desk.client.get(
            SECRETS, f"target-{self.name}", namespace=self.desk.namespace
        )
        data = {key: base64.b64decode(value) for key, value in found["data"].items()}
        return secret_kubeconfig.parse_endpoint(data, name=self.name)


@pytest.fixture
async def two(desk: UserTerminal, other: LocalControlPlane) -> AsyncIterator[TwoClusterUser]:
    (desk.folder / "other").write_bytes(other.kubeconfig())
    home = await desk.client.get(NAMESPACES, "kube-system")
    async with Client(other.endpoint) as there:
        yield TwoClusterUser(
            desk=desk,
            there=there,
            other=other,
            name=fresh_name("c"),
            plan=TargetObjects(home["metadata"]["uid"]),
        )
        for each in (await desk.client.list(SUPER_CLUSTERS))["items"]:
            await desk.client.delete(SUPER_CLUSTERS, each["metadata"]["name"])


async def is_there(client: Client, resource, name: str) -> bool:
    found = await client.list(resource, field_selector=f"metadata.name={name}")
    return bool(found["items"])
