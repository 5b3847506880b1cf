"""The product in two versions: the last release and this checkout, installed by helm.

Owns the archive of the release, and the programs of a version under the rights of the installed
chart. Must not know what a test compares.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import resources, wellknown
from tenancy.ownership import Tenant
from tests.chart.gate import token
from tests.support import played_kubelet
from tests.support.controlplane import AuditMark, LocalControlPlane
from tests.support.eventually import eventually
from tests.support.helm import CHART, NAMESPACE, RELEASE, helm
from tests.support.processes import ProgramProcess, free_port
from tools.testbed.artifacts.product import REPOSITORY

RELEASES = Path(__file__).parent / "releases"
REGISTRY = "registry.example/vc"
PATIENCE = 180.0
_MAX_STARTS = 10
COMPONENTS = {"etcd", "apiserver", "controller-manager"}
"""StatefulSets of a control plane."""


@dataclass(frozen=True, kw_only=True)
class ProductVersion:
    """Chart and programs of one version."""

    name: str
    chart: Path
    programs: Path
    """Folder of the Python packages."""


CURRENT = ProductVersion(name="current", chart=CHART, programs=REPOSITORY)


def find_archive() -> Path:
    """Return the archive of the last release. There is exactly one."""
    (found,) = RELEASES.glob("*.tar.xz")
    return found


def read_commit(archive: Path) -> str:
    """Return the commit that `git archive` recorded."""
    with tarfile.open(archive) as opened:
        return str(opened.pax_headers.get("comment", ""))


def extract_release(folder: Path) -> ProductVersion:
    """Extract the last release into a folder."""
    archive = find_archive()
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    name = archive.name.removesuffix(".tar.xz")
    return ProductVersion(name=name, chart=folder / "charts" / RELEASE, programs=folder)


@dataclass(frozen=True, kw_only=True)
class InstalledProduct:
    """A super cluster's API server, in which tests install and remove the product."""

    plane: LocalControlPlane
    admin: Client
    kubeconfig: Path
    folder: Path
    """For logs and kubeconfigs."""

    async def helm(self, *words: str) -> str:
        """Run helm and return its output. Fails the test when helm fails."""
        done = await asyncio.to_thread(
            helm, *words, "--namespace", NAMESPACE, kubeconfig=self.kubeconfig
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    async def install(self, version: ProductVersion) -> None:
        """Install the chart of a version, or change to it, as docs/install.md does."""
        await self.helm(
            *("upgrade", "--install", RELEASE, str(version.chart), "--create-namespace"),
            *("--reset-then-reuse-values", "--set", f"image.registry={REGISTRY}"),
        )

    @contextlib.asynccontextmanager
    async def running(self, version: ProductVersion, component: str) -> AsyncIterator[None]:
        """Run a component of a version with the account and environment of the chart."""
        module = {wellknown.MANAGER: "vcmanager", wellknown.SYNCER: "syncer"}[component]
        log = self.folder / f"{component}-{version.name}.log"
        kubeconfig = self.folder / f"{component}.kubeconfig"
        kubeconfig.write_text(await self._build_kubeconfig(component))
        kubeconfig.chmod(0o600)
        environment = {
            **await self._read_environment(component),
            "PYTHONPATH": str(version.programs),
            "PYTHONSAFEPATH": "1",  # or the folder of the tests would come first
            "POD_NAME": f"{component}-{version.name}",
            "KUBECONFIG": "/nonexistent",
        }

        def start() -> ProgramProcess:
            flags = ("--kubeconfig", str(kubeconfig), "--namespace", NAMESPACE)
            program = (sys.executable, "-m", module, *flags, "--port", str(free_port()))
            return ProgramProcess(program, log, environment)

        words = (sys.executable, "-c", f"import {module}; print({module}.__file__)")
        place = await asyncio.to_thread(
            subprocess.run,
            words,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        assert place.stdout.startswith(str(version.programs)), place.stdout
        processes = [start()]

        async def restart() -> None:
            """Start it again when it ends, as a kubelet does. A busy machine ends a Lease."""
            while len(processes) < _MAX_STARTS:
                if processes[-1].has_ended:
                    processes.append(start())
                await asyncio.sleep(0.2)

        restarting = asyncio.ensure_future(restart())
        try:
            await self._wait_holder(component, f"{component}-{version.name}")
            yield
            assert not restarting.done(), processes[-1].tail()
        finally:
            restarting.cancel()
            await asyncio.wait([restarting])
            await processes[-1].stop()

    def list_refusals(self, mark: AuditMark) -> list[str]:
        """Return requests of our accounts since then that RBAC, a policy or a schema refused.

        The syncer binds its own account to Secrets after the first watch was refused (ADR 32).
        """
        account = f"system:serviceaccount:{NAMESPACE}:"
        events = [
            event
            for event in self.plane.audit_events(mark)
            if event["user"]["username"].startswith(account)
        ]
        assert any(event["verb"] in ("create", "patch", "update") for event in events)
        answers = [(event, event.get("responseStatus") or {}) for event in events]
        return sorted(
            {
                f"{event['verb']} {event['requestURI']}: {answer['code']} {answer.get('message')}"
                for event, answer in answers
                if answer.get("code") in (400, 403, 422) and not _is_first_watch(event)
            }
        )

    async def _wait_holder(self, component: str, name: str) -> None:
        async def holder() -> str:
            try:
                lease = await self.admin.get(resources.LEASES, component, namespace=NAMESPACE)
            except errors.NotFound:
                return ""
            return str(lease["spec"].get("holderIdentity") or "")

        await eventually(holder, until=lambda found: found.startswith(name), within=PATIENCE)

    async def _read_environment(self, component: str) -> dict[str, str]:
        deployment = await self.admin.get(resources.DEPLOYMENTS, component, namespace=NAMESPACE)
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        return {each["name"]: each["value"] for each in container["env"] if "value" in each}

    async def _build_kubeconfig(self, account: str) -> str:
        document = json.loads(self.plane.kubeconfig())
        (user,) = document["users"]
        user["user"] = {"token": await token(self.admin, account)}
        return json.dumps(document)


def _is_first_watch(event: Object) -> bool:
    return event["verb"] == "watch" and event["objectRef"]["resource"] == "secrets"


@dataclass(frozen=True, kw_only=True)
class LiveTenant:
    """One tenant whose pods run, and what must survive."""

    product: InstalledProduct
    tenant: Tenant

    async def work(self, *, within: float = PATIENCE) -> None:
        """Wait until the manager has written everything, and no pod is missing or outdated.

        A deleted object that returns shows that the whole reconcile has passed since.
        """
        admin, root = self.product.admin, self.tenant.root
        for resource, name in ((resources.NETWORK_POLICIES, "etcd"), (resources.SERVICES, "etcd")):
            with contextlib.suppress(errors.NotFound):
                await admin.delete(resource, name, namespace=root)
        await eventually(
            lambda: admin.get(resources.SERVICES, "etcd", namespace=root), within=within
        )
        await eventually(self._is_running, within=within)

    async def _is_running(self) -> bool:
        admin, root = self.product.admin, self.tenant.root
        with contextlib.suppress(errors.NotFound):  # a controller was faster
            await played_kubelet.end_pods(admin, root)
            await played_kubelet.run_pods(admin, root)
        page = await admin.list(resources.STATEFUL_SETS, namespace=root)
        sets = page.get("items") or []
        return {each["metadata"]["name"] for each in sets} >= COMPONENTS and all(
            each["status"].get("observedGeneration") == each["metadata"]["generation"]
            and each["status"].get("updatedReplicas") == each["spec"]["replicas"]
            and each["status"].get("readyReplicas") == each["spec"]["replicas"]
            for each in sets
        )

    async def record(self) -> dict[str, Any]:
        """Return what no upgrade may change: identities, keys, addresses and data."""
        admin, root = self.product.admin, self.tenant.root
        cluster = await admin.get(
            resources.VIRTUAL_CLUSTERS, self.tenant.name, namespace=self.tenant.namespace
        )
        found: dict[str, Any] = {"uid": cluster["metadata"]["uid"], "spec": cluster["spec"]}
        namespace = await admin.get(resources.NAMESPACES, root)
        found["namespace"] = namespace["metadata"]["uid"]
        for secret in await self._list(resources.SECRETS):
            found[f"secret {secret['metadata']['name']}"] = secret["data"]
        for claim in await self._list(resources.PERSISTENT_VOLUME_CLAIMS):
            found[f"claim {claim['metadata']['name']}"] = claim["metadata"]["uid"]
        for service in await self._list(resources.SERVICES):
            found[f"service {service['metadata']['name']}"] = service["spec"].get("clusterIP")
        return found

    async def record_pods(self) -> dict[str, str]:
        """Return the pods of the control plane: a restart would change a UID."""
        pods = await self._list(resources.PODS)
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}

    async def record_templates(self) -> dict[str, Object]:
        """Return the pod templates of the control plane."""
        sets = await self._list(resources.STATEFUL_SETS)
        return {each["metadata"]["name"]: each["spec"]["template"] for each in sets}

    async def _list(self, resource: resources.Resource) -> Sequence[Object]:
        page = await self.product.admin.list(resource, namespace=self.tenant.root)
        return page.get("items") or []
