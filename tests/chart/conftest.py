"""A real API server with the chart installed by helm, for the tests of what servers make of it."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.chart.helm import CHART, NAMESPACE, RELEASE, helm
from tests.support.controlplane import ControlPlane


@dataclass(frozen=True, kw_only=True)
class Server:
    """An API server and the kubeconfig by which helm reaches it."""

    plane: ControlPlane
    kubeconfig: Path

    def helm(self, *words: str) -> str:
        """Run helm against it and return its output; fails the test when helm fails."""
        done = helm(*words, "--namespace", NAMESPACE, kubeconfig=self.kubeconfig)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("chart")
    plane = ControlPlane(folder, name="chart")
    asyncio.run(plane.start())
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_bytes(plane.kubeconfig())
    kubeconfig.chmod(0o600)
    running = Server(plane=plane, kubeconfig=kubeconfig)
    running.helm("install", RELEASE, str(CHART), "--create-namespace")
    yield running
    asyncio.run(plane.stop())
