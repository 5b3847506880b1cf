"""A whole rotation under the real programs, while clients ask ten times a second.

Two API servers, three members of etcd and one controller manager run on loopback with the files of
their pods. A program is restarted only if the digest in its pod template changed. All waits are
seconds.
"""

import asyncio
import contextlib
import urllib.request
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pytest

from kubeio import Object, errors
from kubeio.api.client import Client
from kubeio.config.endpoint import Endpoint
from tenancy import resources, wellknown
from tests.integration.vcmanager.conftest import ManagerStage
from tests.integration.vcmanager.hosted_control_plane import HostTenant, materialise, start, who
from tests.integration.vcmanager.test_rotation import request, stage_of
from tests.support.account_tokens import request_account_token
from tests.support.eventually import eventually
from tests.support.processes import ProgramProcess, free_port
from vcmanager.pki import inventory, rotated_secrets, rotation
from vcmanager.pki.rotation import RotationWaits
from vcmanager.plan import tenant_objects

_WAIT = timedelta(seconds=5)
_API_SERVERS = 2
_MEMBERS = ("etcd-0", "etcd-1", "etcd-2")
_ASKED = "asked"
"""ConfigMap that the clients read and change."""


@dataclass
class HostPlane:
    """The programs, their ports, and the digest of the files that each was started with."""

    stage: ManagerStage
    cluster: Object
    folder: Path
    ports: dict[str, int] = field(default_factory=dict)
    running: dict[str, ProgramProcess] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    restarts: dict[str, int] = field(default_factory=dict)
    ready: list[str] = field(default_factory=list)
    """API servers that the Service would lead to."""

    def __post_init__(self) -> None:
        uses = [f"{name}-{use}" for name in _MEMBERS for use in ("client", "peer", "health")]
        for name in (*uses, *self.list_api_servers()):
            self.ports[name] = free_port()

    @staticmethod
    def list_api_servers() -> list[str]:
        return [f"apiserver-{number}" for number in range(_API_SERVERS)]

    async def endpoint(self, credential: str, server: str = "apiserver-0") -> Endpoint:
        tenant = HostTenant(
            stage=self.stage,
            cluster=self.cluster,
            api_port=self.ports[server],
            etcd_port=self.ports["etcd-0-client"],
            processes=[],
            settings={},
            folder=self.folder,
        )
        return await tenant.endpoint(credential)

    def get_ready_server(self) -> str:
        return f"https://127.0.0.1:{self.ports[self.ready[0]]}"

    async def update(self) -> None:
        """Write the files of all pods, and restart the programs whose template changed."""
        programs = {
            **dict.fromkeys(_MEMBERS, "etcd"),
            **dict.fromkeys(self.list_api_servers(), "apiserver"),
        }
        for name, component in {**programs, "controller-manager": "controller-manager"}.items():
            root = self.stage.root(self.cluster)
            found = await self.stage.admin.get(resources.STATEFUL_SETS, component, namespace=root)
            await self.write_files(name, found)
            digest = self.read_digest(found)
            if self.digests.get(name) == digest:
                continue
            self.digests[name] = digest
            await self.restart(name, found)

    async def write_files(self, name: str, found: Object) -> None:
        """Write the files of a pod."""
        await materialise(self.stage, self.stage.root(self.cluster), found, self.folder / name)
        if name == "controller-manager":
            self.point_at_api()

    @staticmethod
    def read_digest(found: Object) -> str:
        """Return the digest of the files that a program reads once."""
        annotations = found["spec"]["template"]["metadata"]["annotations"]
        return str(annotations[wellknown.SECRETS_DIGEST])

    def start(self, name: str, found: Object) -> ProgramProcess:
        """Start a program with the files of its pod."""
        return start(found, self.folder / name, **self.build_flags(name))

    def point_at_api(self) -> None:
        path = self.folder / "controller-manager/etc/kubernetes/kubeconfig"
        file = path / "controller-manager-kubeconfig"
        lines = file.read_text().split("\n")
        server = f"    server: https://127.0.0.1:{self.ports['apiserver-0']}"
        file.write_text("\n".join(server if "server: " in line else line for line in lines))

    async def restart(self, name: str, found: Object) -> None:
        if name in self.ready:
            self.ready.remove(name)
        before = self.running.pop(name, None)
        if before is not None:
            await before.stop(patience=10.0)
            self.restarts[name] = self.restarts.get(name, 0) + 1
        self.running[name] = self.start(name, found)
        if name.startswith("apiserver"):
            await self.wait_ready(name)
            self.ready.append(name)
        elif name in _MEMBERS and before is not None:
            await self.wait_member(name)

    async def wait_member(self, name: str) -> None:
        """Wait until a restarted member of etcd is ready. The first ones wait for each other."""
        url = f"http://127.0.0.1:{self.ports[f'{name}-health']}/readyz"

        def fetch() -> bool:
            try:
                with urllib.request.urlopen(url, timeout=5) as answer:
                    return bool(answer.status == 200)
            except OSError:
                return False  # it does not listen yet

        async def is_ready() -> bool:
            if self.running[name].has_ended:
                raise RuntimeError(self.running[name].tail())
            return await asyncio.to_thread(fetch)

        await eventually(is_ready, within=60)

    async def wait_ready(self, name: str) -> None:
        async def is_ready():
            if self.running[name].has_ended:
                raise RuntimeError(self.running[name].tail())
            async with Client(await self.endpoint("manager", name)) as client:
                return await client.raw("GET", "/readyz")

        await eventually(is_ready, within=60)

    def build_flags(self, name: str) -> dict[str, str]:
        clients = {each: f"https://127.0.0.1:{self.ports[f'{each}-client']}" for each in _MEMBERS}
        peers = {each: f"https://127.0.0.1:{self.ports[f'{each}-peer']}" for each in _MEMBERS}
        if name in _MEMBERS:
            return {
                "name": name,
                "data-dir": str(self.folder / name / "data"),
                "listen-client-urls": clients[name],
                "advertise-client-urls": clients[name],
                "listen-peer-urls": peers[name],
                "initial-advertise-peer-urls": peers[name],
                "initial-cluster": ",".join(f"{each}={url}" for each, url in peers.items()),
                "listen-metrics-urls": f"http://127.0.0.1:{self.ports[f'{name}-health']}",
            }
        if name == "controller-manager":
            return {"secure-port": "0", "leader-elect": "false"}
        return {
            "bind-address": "127.0.0.1",
            "secure-port": str(self.ports[name]),
            "etcd-servers": ",".join(clients.values()),
            "endpoint-reconciler-type": "none",
            "shutdown-delay-duration": "0s",  # the asker leaves out who ends
        }


@contextlib.asynccontextmanager
async def running(stage: ManagerStage, cluster: Object, folder: Path) -> AsyncIterator[HostPlane]:
    plane = HostPlane(stage, cluster, folder)
    try:
        await plane.update()
        async with Client(await plane.endpoint("manager")) as manager:
            await tenant_objects.apply_objects(manager, dns_address="")
            await eventually(lambda: tenant_objects.has_controllers(manager), within=60)
            await let_clients_write(manager)
        yield plane
    finally:
        for process in plane.running.values():
            await process.stop(patience=3.0)


async def let_clients_write(manager: Client) -> None:
    """Create the ConfigMap, and let the ServiceAccount of the token change it."""
    place = {"namespace": "default"}
    await manager.create(resources.CONFIG_MAPS, {"metadata": {"name": _ASKED, **place}})
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": _ASKED, **place},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", **place}],
    }
    await manager.create(resources.ROLE_BINDINGS, binding)


@dataclass
class Asker:
    """Asks with credentials of the present stage and of the one before, on new connections.

    Each request reads and changes a stored object, so an outage of etcd is a failure.
    """

    plane: HostPlane
    known: list[list[Endpoint]] = field(default_factory=list)
    asked: int = 0
    stored: int = 0
    """Number of the last change that was answered."""
    failures: list[str] = field(default_factory=list)

    async def learn(self) -> None:
        """Fetch the kubeconfig, if it changed. The token stays until the programs are updated."""
        admin = await self.plane.endpoint("admin")
        if not self.known:
            self.known.append([admin])
            await self.renew_token()
        elif self.known[-1][0] != admin:
            self.known.append([admin, *self.known[-1][1:]])

    async def renew_token(self) -> None:
        """Request a token with the last kubeconfig, as a kubelet does for its pods."""
        admin = self.known[-1][0]
        async with Client(replace(admin, server=self.plane.get_ready_server())) as client:
            requested = await request_account_token(client, "default", "default")
        token = Endpoint(server=admin.server, ca=admin.ca, token=requested)
        self.known[-1][1:] = [token]

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            for stage in self.known[-2:]:
                for endpoint in stage:
                    await self.ask(endpoint)
            await asyncio.sleep(0.1)

    async def ask(self, endpoint: Endpoint) -> None:
        """Ask one API server, and the next one if the connection is refused."""
        self.asked += 1
        problem: Exception | None = None
        for name in [*self.plane.ready]:
            server = f"https://127.0.0.1:{self.plane.ports[name]}"
            try:
                async with Client(replace(endpoint, server=server)) as client:
                    await self.read_and_change(client)
            except errors.Unavailable as failure:
                problem = failure
            except errors.KubeError as failure:
                problem = failure
                break
            else:
                return
        self.failures.append(f"{type(problem).__name__}: {problem}")

    async def read_and_change(self, client: Client) -> None:
        await who(client)
        found = await client.get(resources.CONFIG_MAPS, _ASKED, namespace="default")
        before = int((found.get("data") or {}).get("asked", 0))
        # A change of an older answer would be lost otherwise.
        assert before >= self.stored, f"read {before} after {self.stored}"
        body = {"data": {"asked": str(self.asked)}}
        made = await client.patch(resources.CONFIG_MAPS, _ASKED, body, namespace="default")
        self.stored = int(made["data"]["asked"])


async def is_refused(endpoint: Endpoint) -> bool:
    try:
        async with Client(endpoint) as client:
            await who(client)
    except errors.KubeError:
        return True
    return False


async def test_no_request_fails_while_all_authorities_rotate(
    stage: ManagerStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    names = tuple(rotated_secrets.ROTATED_SECRETS)
    waits = {name: RotationWaits(trust=_WAIT, drop=_WAIT) for name in rotation.WAITS}
    monkeypatch.setattr(rotation, "WAITS", waits)
    monkeypatch.setattr(rotation, "PROPAGATION", _WAIT)
    cluster = await stage.declare(dns="none")
    await stage.bring_up(cluster)
    stages: set[str] = set()
    async with running(stage, cluster, tmp_path) as plane:
        asker, stop = Asker(plane), asyncio.Event()
        await asker.learn()
        asking = asyncio.ensure_future(asker.run(stop))
        await request(stage, cluster, *names)
        # Without that, the handed-out kubeconfig holds its authority for a year.
        await request(stage, cluster, inventory.CLIENT, force=True)
        for _ in range(400):
            # The pods get their files, and are ready, before the manager sees that.
            await stage.work(cluster)
            await asker.learn()
            await plane.update()
            await asker.renew_token()
            await stage.end_pods(cluster)
            with contextlib.suppress(errors.NotFound):  # a Deployment was faster
                await stage.run_pods(cluster)
            states = [(await stage_of(stage, cluster, name))[0] for name in names]
            stages |= {state.stage for state in states}
            if all(state.stage == "stable" and state.requested for state in states):
                break
            await asyncio.sleep(0.1)
        else:
            raise AssertionError(f"not all became stable: {dict(zip(names, states, strict=True))}")
        await stage.work(cluster)
        await plane.update()
        await asyncio.sleep(3)
        stop.set()
        await asking
        print(f"{asker.asked} requests, {len(asker.failures)} failed, restarts {plane.restarts}")
        print("\n".join(sorted({failure[:300] for failure in asker.failures})))
        assert stages == {"trust-both", "issue-new", "stable"}
        assert asker.failures == []
        assert asker.asked > 200
        # Neither the first kubeconfig nor the first token opens anything.
        for endpoint in asker.known[0]:
            trusting = replace(endpoint, ca=asker.known[-1][0].ca)
            await eventually(lambda trusting=trusting: is_refused(trusting), within=90)
