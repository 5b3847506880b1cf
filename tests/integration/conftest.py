"""Control planes that all integration tests share, started when the first test asks for one.

A test that stops, kills or re-stores a server makes a plane of its own. These two only ever serve.
Tests must not collide in them: use `fresh_namespace` and generated names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.controlplane import LocalControlPlane, serving

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test below this folder."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("integration")


@pytest.fixture(scope="package")
def super_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalControlPlane]:
    """Stand-in for the super cluster: an API without nodes or controllers."""
    yield from _serving(tmp_path_factory, "super", "10.96.0.0/16")


@pytest.fixture(scope="package")
def tenant_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalControlPlane]:
    """A tenant's API. Its service range is a slice of the super's."""
    yield from _serving(tmp_path_factory, "tenant", "10.96.8.0/22")


def _serving(
    factory: pytest.TempPathFactory, name: str, service_range: str
) -> Iterator[LocalControlPlane]:
    plane = LocalControlPlane(factory.mktemp(name), name=name, service_range=service_range)
    with serving(plane):
        yield plane
