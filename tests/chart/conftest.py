"""A real API server with the chart installed by helm, for the tests of what servers make of it."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kubeio.api.client import Client
from tenancy import wellknown
from tenancy.resources import NAMESPACES
from tests.chart.gate import AdmissionStage, bind, record_levels, root, space, tenant, token
from tests.chart.stolen_tokens import StolenTokens, steal_tokens
from tests.support.controlplane import LocalControlPlane, serving
from tests.support.helm import CHART, NAMESPACE, RELEASE, helm


@dataclass(frozen=True, kw_only=True)
class ChartApiServer:
    """An API server and the kubeconfig by which helm reaches it."""

    plane: LocalControlPlane
    kubeconfig: Path

    def helm(self, *words: str) -> str:
        """Run helm against it and return its output. Fails the test when helm fails."""
        done = helm(*words, "--namespace", NAMESPACE, kubeconfig=self.kubeconfig)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChartApiServer]:
    folder = tmp_path_factory.mktemp("chart")
    plane = LocalControlPlane(folder, name="chart")
    with serving(plane):
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_bytes(plane.kubeconfig())
        kubeconfig.chmod(0o600)
        running = ChartApiServer(plane=plane, kubeconfig=kubeconfig)
        running.helm("install", RELEASE, str(CHART), "--create-namespace")
        yield running


@pytest.fixture
async def stage(server: ChartApiServer) -> AsyncIterator[AdmissionStage]:
    """Two tenants with a namespace each, before the gate."""
    plane = server.plane
    async with Client(plane.endpoint) as admin:
        stolen = plane.endpoint_with_token(token=await token(admin))
        async with Client(stolen) as thief:
            found = AdmissionStage(admin=admin, thief=thief, own=tenant(), foreign=tenant())
            levels = {each.uid: "baseline baseline" for each in (found.own, found.foreign)}
            await record_levels(admin, levels)
            for each in (found.own, found.foreign):
                await admin.create(NAMESPACES, root(each))
                await bind(admin, each.root, wellknown.SYNCER_CREDENTIAL_ROLE)
                await admin.create(NAMESPACES, space(each))
                await bind(admin, found.namespace(each), wellknown.SYNCER_NAMESPACE_ROLE)
            await found.wait_known(found.own)
            yield found


@pytest.fixture
async def stolen(server: ChartApiServer, stage: AdmissionStage) -> AsyncIterator[StolenTokens]:
    """Two tenants, and a client with each stolen token."""
    async with steal_tokens(server.plane, stage) as found:
        yield found
