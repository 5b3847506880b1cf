"""A real control plane on loopback: etcd, kube-apiserver and, if wanted, some controllers.

Made for tests that need the server's own behaviour: stop it, kill it, freeze it, or give it another
store. Takes about three seconds to start and leaves nothing behind but its folder.

    plane = ControlPlane(tmp_path, name="tenant", service_range="10.96.8.0/22")
    await plane.start()
    async with Client(plane.endpoint) as client: ...
    await plane.stop()

Pods can be created without a controller: the ServiceAccount admission plugin is off unless the
controller `serviceaccount-controller` was asked for.
"""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kubeio.api.client import Client
from kubeio.config.endpoint import Endpoint
from kubeio.errors import KubeError, NotSent
from kubeio.http.rest import ClientOptions
from tests.support.processes import ProgramProcess, free_port
from tools.testbed.artifacts import binaries

ACCOUNTS = "serviceaccount-controller"
"""The controller that makes the `default` account in each namespace."""
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Request"}],
}


class AuditMark(NamedTuple):
    """A moment in an audit log.

    A request may have worked before its line is in the log. A place in the log alone would count it
    for a mark that was set in between.
    """

    place: int
    """Where the log ended then, in bytes, in whole lines."""
    moment: str
    """When that was, as the log writes it."""


@contextmanager
def serving(
    plane: LocalControlPlane,
    furnish: Callable[[Client], Awaitable[None]] | None = None,
    *,
    begin: Callable[[LocalControlPlane], Awaitable[None]] | None = None,
) -> Iterator[LocalControlPlane]:
    """Run a control plane for the length of a block, in an event loop of its own.

    `furnish` writes the first objects. `begin` starts the control plane in another way.
    """

    async def start() -> None:
        await (plane.start() if begin is None else begin(plane))
        if furnish is not None:
            async with Client(plane.endpoint) as client:
                await furnish(client)

    try:
        asyncio.run(start())
        yield plane
    finally:
        asyncio.run(plane.stop())


def client_pair(authority: trustme.CA, user: str, group: str) -> tuple[bytes, bytes]:
    """Return certificate and key of a user, as PEM."""
    # Go refuses a certificate whose alternative names are critical and empty, hence the name.
    made = authority.issue_cert("client.invalid", common_name=user, organization_name=group or None)
    return made.cert_chain_pems[0].bytes(), made.private_key_pem.bytes()


def kubeconfig(name: str, server: str, ca: bytes, user: str, pair: tuple[bytes, bytes]) -> bytes:
    """Return a kubeconfig of the strict kind: everything inline."""
    cert, key = pair
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": name,
                "cluster": {
                    "server": server,
                    "certificate-authority-data": base64.b64encode(ca).decode(),
                },
            }
        ],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": base64.b64encode(cert).decode(),
                    "client-key-data": base64.b64encode(key).decode(),
                },
            }
        ],
        "contexts": [{"name": "it", "context": {"cluster": name, "user": user}}],
        "current-context": "it",
    }
    return json.dumps(document).encode()


class LocalControlPlane:
    """One cluster without nodes. All methods belong to one event loop's thread."""

    def __init__(
        self,
        folder: Path,
        *,
        name: str = "cluster",
        minor: str | None = None,
        service_range: str = "10.96.0.0/16",
        audit: bool = False,
        controllers: Sequence[str] = (),
        api_args: Mapping[str, str] | None = None,
        store_of: LocalControlPlane | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Write certificates and choose ports. Nothing runs before `start`.

        With `store_of` the API server keeps its objects in the etcd of another plane that runs
        already, under a prefix of its own. `env` is for etcd and API server.
        """
        self.name = name
        self.folder = folder
        self.audit_log = folder / "audit.log"
        self._minor = minor
        self._service_range = service_range
        self._audit = audit
        self._controllers = tuple(controllers)
        self._api_args = dict(api_args or {})
        self._store_of = store_of
        self._env = env
        self._store = "store"
        self._port = 0
        self._etcd_port = 0
        self._etcd: ProgramProcess | None = None
        self._apiserver: ProgramProcess | None = None
        self._manager: ProgramProcess | None = None
        self._authority = trustme.CA()
        folder.mkdir(parents=True, exist_ok=True)
        self._write_certificates()

    # Connections of tests.

    @property
    def server(self) -> str:
        """The URL."""
        return f"https://127.0.0.1:{self._port}"

    @property
    def store(self) -> str:
        """Name of the data folder that the store has now."""
        return self._store

    @property
    def etcd(self) -> str:
        """The URL of the store, which needs no credentials."""
        return f"http://127.0.0.1:{(self._store_of or self)._etcd_port}"

    @property
    def ca(self) -> bytes:
        """PEM of the authority of server and clients."""
        return self._authority.cert_pem.bytes()

    @property
    def endpoint(self) -> Endpoint:
        """The API as its almighty administrator."""
        return self.endpoint_for("admin", group="system:masters")

    def endpoint_for(self, user: str, *, group: str = "") -> Endpoint:
        """The API as any user, by a certificate made on the spot."""
        cert, key = self._client_pair(user, group)
        return Endpoint(
            server=self.server, name=self.name, ca=self.ca, client_cert=cert, client_key=key
        )

    def endpoint_with_token(self, *, token: str = "", token_file: Path | None = None) -> Endpoint:
        """The API with a bearer token."""
        return Endpoint(
            server=self.server, name=self.name, ca=self.ca, token=token, token_file=token_file
        )

    def kubeconfig(self, user: str = "admin", *, group: str = "system:masters") -> bytes:
        """A kubeconfig of the strict kind: everything inline."""
        pair = self._client_pair(user, group)
        return kubeconfig(self.name, self.server, self.ca, user, pair)

    def audit_mark(self) -> AuditMark:
        """Return this moment in the audit log. Needs audit=True."""
        moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return AuditMark(self._audit_size(), moment)

    def _audit_size(self) -> int:
        if not self.audit_log.exists():
            return 0
        with self.audit_log.open("rb") as log:
            size = log.seek(0, 2)
            while size:
                step = min(size, 65536)
                log.seek(size - step)
                end = log.read(step).rfind(b"\n")
                if end >= 0:
                    return size - step + end + 1
                size -= step
        return 0

    def audit_events(self, since: AuditMark | None = None) -> list[dict[str, Any]]:
        """Return what the audit log has of the requests that came after a mark, or of all."""
        if not self.audit_log.exists():
            return []
        place, moment = since or AuditMark(0, "")
        with self.audit_log.open("rb") as log:
            log.seek(place)
            lines = log.read().splitlines()
        events = [json.loads(line) for line in lines if line.endswith(b"}")]
        return [event for event in events if event["requestReceivedTimestamp"] > moment]

    def pids(self) -> dict[str, int]:
        """Running processes by the program's name."""
        running = (self._etcd, self._apiserver, self._manager)
        return {process.name: process.pid for process in running if process is not None}

    # Starting and stopping.

    async def start(self) -> None:
        """Start everything that does not run, and wait until the API is ready."""
        for last_try in (False, False, True):
            self._port = self._port or free_port()
            self._etcd_port = self._etcd_port or free_port()
            try:
                if self._store_of is None:
                    self._etcd = self._etcd or self._start_etcd()
                self._apiserver = self._apiserver or self._start_apiserver()
                await self._wait_ready()
                break
            except PortTakenError:
                if last_try:
                    raise
                await self.stop()
                self._port = self._etcd_port = 0
        if self._controllers and self._manager is None:
            self._manager = self._start_manager()
        if ACCOUNTS in self._controllers:
            await self._wait_for_default_account()

    async def stop(self) -> None:
        """Stop everything in order. `start` brings it back on the same port, etcd and keys."""
        for process in (self._manager, self._apiserver, self._etcd):
            if process is not None:
                # An API server waits for its watchers to leave, who wait for it to come back.
                await process.stop(patience=1.0 if process is self._apiserver else 10.0)
        self._manager = self._apiserver = self._etcd = None

    async def stop_apiserver(self) -> None:
        """End the API server in order. Its etcd continues."""
        if self._apiserver is not None:
            await self._apiserver.stop(patience=1.0)
            self._apiserver = None

    def kill_apiserver(self) -> None:
        """Kill the API server. Connections break in the middle."""
        if self._apiserver is not None:
            self._apiserver.kill()
            self._apiserver = None

    def pause_apiserver(self) -> None:
        """Freeze the API server: connections stay open, nothing answers."""
        if self._apiserver is not None:
            self._apiserver.pause()

    def resume_apiserver(self) -> None:
        """Let the frozen API server go on."""
        if self._apiserver is not None:
            self._apiserver.resume()

    async def restart_on_store(self, store: str, *, copy_of: str = "") -> None:
        """Restart on the etcd data folder `store`, which starts empty or as a copy of another.

        A copy of the present one is taken after etcd stopped, so it is whole. Later
        `restart_on_store("store")` returns to the first one.
        """
        await self.stop()
        if copy_of:
            shutil.copytree(self.folder / copy_of, self.folder / store)
        self._store = store
        await self.start()

    async def copy_store(self, copy: str) -> None:
        """Keep a copy of the present data under another name, and go on with the present."""
        await self.stop()
        shutil.copytree(self.folder / self._store, self.folder / copy)
        await self.start()

    # Inside.

    def _write_certificates(self) -> None:
        serving = self._authority.issue_cert(
            "127.0.0.1", "localhost", "kubernetes", "kubernetes.default.svc"
        )
        self._write("ca.crt", self.ca)
        self._write("ca.key", self._authority.private_key_pem.bytes())
        self._write("serving.crt", b"".join(p.bytes() for p in serving.cert_chain_pems))
        self._write("serving.key", serving.private_key_pem.bytes())
        accounts = ec.generate_private_key(ec.SECP256R1())
        private = accounts.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
        public = accounts.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self._write("accounts.key", private)
        self._write("accounts.pub", public)
        self._write("audit.json", json.dumps(_AUDIT_POLICY).encode())

    def _write(self, name: str, content: bytes) -> None:
        path = self.folder / name
        path.write_bytes(content)
        path.chmod(0o600)

    def _client_pair(self, user: str, group: str) -> tuple[bytes, bytes]:
        return client_pair(self._authority, user, group)

    def _start_etcd(self) -> ProgramProcess:
        peer = f"http://127.0.0.1:{free_port()}"
        client = f"http://127.0.0.1:{self._etcd_port}"
        arguments = {
            "data-dir": str(self.folder / self._store),
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
            "log-level": "warn",
        }
        program = str(binaries.path("etcd"))
        argv = [program, *_flags(arguments), "--unsafe-no-fsync"]
        return ProgramProcess(argv, self.folder / "etcd.log", self._env)

    def _start_apiserver(self) -> ProgramProcess:
        at = self.folder
        arguments = {
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "secure-port": str(self._port),
            "etcd-servers": self.etcd,
            "service-cluster-ip-range": self._service_range,
            "authorization-mode": "RBAC",
            "client-ca-file": str(at / "ca.crt"),
            "tls-cert-file": str(at / "serving.crt"),
            "tls-private-key-file": str(at / "serving.key"),
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": str(at / "accounts.pub"),
            "service-account-signing-key-file": str(at / "accounts.key"),
            "allow-privileged": "true",
            "endpoint-reconciler-type": "none",  # loopback is no legal endpoint address
        }
        if ACCOUNTS not in self._controllers:
            arguments["disable-admission-plugins"] = "ServiceAccount"
        if self._store_of is not None:
            arguments["etcd-prefix"] = f"/{self.name}"
        if self._audit:
            arguments["audit-policy-file"] = str(at / "audit.json")
            arguments["audit-log-path"] = str(self.audit_log)
        program = str(binaries.path("kube-apiserver", self._minor))
        argv = [program, *_flags(arguments | self._api_args)]
        return ProgramProcess(argv, at / "apiserver.log", self._env)

    def _start_manager(self) -> ProgramProcess:
        at = self.folder
        self._write("manager.kubeconfig", self.kubeconfig("controllers"))
        arguments = {
            "kubeconfig": str(at / "manager.kubeconfig"),
            "authentication-kubeconfig": str(at / "manager.kubeconfig"),
            "authorization-kubeconfig": str(at / "manager.kubeconfig"),
            "controllers": ",".join(self._controllers),
            "secure-port": "0",
            "leader-elect": "false",
            "root-ca-file": str(at / "ca.crt"),
            "service-account-private-key-file": str(at / "accounts.key"),
            "cluster-signing-cert-file": str(at / "ca.crt"),
            "cluster-signing-key-file": str(at / "ca.key"),
        }
        program = str(binaries.path("kube-controller-manager", self._minor))
        return ProgramProcess([program, *_flags(arguments)], at / "controller-manager.log")

    async def _wait_ready(self) -> None:
        async with Client(self.endpoint, ClientOptions(deadline=2.0)) as client:
            loop = asyncio.get_running_loop()
            ends = loop.time() + 60.0
            while True:
                self._complain_about_the_dead()
                try:
                    await client.raw("GET", "/readyz")
                except KubeError as problem:
                    if loop.time() > ends:
                        raise AssertionError(f"{self.name} is not ready: {problem}") from problem
                    # A server that does not listen yet is asked again sooner than a busy one.
                    await asyncio.sleep(0.03 if isinstance(problem, NotSent) else 0.1)
                else:
                    return

    async def _wait_for_default_account(self) -> None:
        from tenancy.resources import SERVICE_ACCOUNTS  # noqa: PLC0415 - only here
        from tests.support.eventually import eventually  # noqa: PLC0415 - only here

        async with Client(self.endpoint) as client:
            await eventually(
                lambda: client.get(SERVICE_ACCOUNTS, "default", namespace="default"), within=30
            )

    def _complain_about_the_dead(self) -> None:
        for process in (self._etcd, self._apiserver):
            if process is not None and process.has_ended:
                told = process.tail()
                if "address already in use" in told:
                    raise PortTakenError(told)
                raise AssertionError(f"{self.name}: {told}")


class PortTakenError(Exception):
    """Another program was faster on a port that was free a moment ago."""


@asynccontextmanager
async def running(plane: LocalControlPlane) -> AsyncIterator[LocalControlPlane]:
    """Run a control plane for the length of a block."""
    try:
        await plane.start()
        yield plane
    finally:
        await plane.stop()


def _flags(arguments: Mapping[str, str]) -> list[str]:
    return [f"--{key}={value}" for key, value in arguments.items()]
