"""`kubectl vc why` in tests with real API servers, from both sides."""

from __future__ import annotations

import base64
import contextlib
import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.diagnosis import why
from kubectl_vc.output.printers import ReportFormat
from kubectl_vc.output.terminal import Terminal
from kubeio import errors
from tenancy import wellknown
from tenancy.resources import LEASES, SECRETS
from tests.integration.syncer.world import HOME, SyncerWorld


class WhyRunner:
    """Runs `kubectl vc why` with the kubeconfigs of both sides."""

    def __init__(self, world: SyncerWorld, folder: Path) -> None:
        self.world, self.folder = world, folder
        (folder / "super").write_bytes(world.super_plane.kubeconfig())
        (folder / "tenant").write_bytes(world.tenant_plane.kubeconfig())

    async def publish_kubeconfig(self) -> None:
        """Create the Secret that vc-manager creates."""
        encoded = base64.b64encode(self.world.tenant_plane.kubeconfig()).decode()
        body = {"metadata": {"name": "admin-kubeconfig"}, "data": {"admin-kubeconfig": encoded}}
        with contextlib.suppress(errors.AlreadyExists):
            await self.world.super_client.create(SECRETS, body, namespace=self.world.tenant.root)

    async def renew_lease(self, renewed: datetime) -> None:
        """Write the Lease of the syncer, which the program writes and its class does not."""
        stamp = renewed.strftime("%Y-%m-%dT%H:%M:%S.000000Z")
        body = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": wellknown.SYNCER, "namespace": HOME},
            "spec": {"holderIdentity": "test", "leaseDurationSeconds": 7, "renewTime": stamp},
        }
        await self.world.super_client.apply(LEASES, body, field_manager="test")

    async def run(self, side: str, wanted: str, namespace: str = "", **options: Any) -> str:
        """Run the verb with the kubeconfig of a side, and return its output.

        The verb runs in this loop, because the syncer of the test logs to standard output.
        """
        out = io.StringIO()
        values: dict[str, Any] = {
            "virtual_cluster": "",
            "as_tenant": False,
            "manager_namespace": HOME,
            "form": ReportFormat.JSON,
        }
        flags = ConfigFlags(kubeconfig=str(self.folder / side), namespace=namespace)
        await why.run_why(
            flags, Terminal(out, out), wanted=wanted, options=why.WhyOptions(**values | options)
        )
        return out.getvalue()

    async def ask(self, wanted: str, namespace: str) -> dict[str, Any]:
        """Return the report of the super view, after a check of both views of the tenant."""
        tenant = self.world.tenant
        known = {"virtual_cluster": f"{tenant.namespace}/{tenant.name}"}
        found: dict[str, Any] = json.loads(await self.run("super", wanted, namespace, **known))
        found["tenantLayers"] = []
        for shown in (
            await self.run("super", wanted, namespace, as_tenant=True, **known),
            await self.run("tenant", wanted, namespace),
        ):
            for hidden in (tenant.root, tenant.uid, self.world.super_namespace(namespace)):
                assert hidden not in shown
            assert "copy" not in json.loads(shown)
            found["tenantLayers"].append(json.loads(shown)["layer"])
        return found


async def start_why_runner(world: SyncerWorld, folder: Path) -> WhyRunner:
    """Return a runner for a tenant whose kubeconfig and Lease are in place."""
    found = WhyRunner(world, folder)
    await found.publish_kubeconfig()
    await found.renew_lease(datetime.now(UTC))
    return found
