"""Each layer broken in turn on real API servers: `why` and `doctor` name the broken one first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kubeio.api.client import Client
from tenancy.resources import SUPER_CLUSTERS, VIRTUAL_CLUSTERS
from tests.integration.kubectl_vc.faults import shapes
from tests.integration.kubectl_vc.faults.installation_faults import INSTALLATION_FAULTS
from tests.integration.kubectl_vc.faults.object_faults import OBJECT_FAULTS
from tests.integration.kubectl_vc.faults.pod_faults import POD_FAULTS
from tests.integration.kubectl_vc.faults.table import Fault
from tests.integration.kubectl_vc.faults.tenant_faults import TENANT_FAULTS
from tests.integration.kubectl_vc.faults.world import FaultWorld, furnish_super, sound_world
from tests.support.controlplane import LocalControlPlane, serving
from tests.support.declared_tenants import install_crds
from tests.support.eventually import eventually
from tests.support.kubectl_vc.command_runner import CommandResult

FAULTS = (*INSTALLATION_FAULTS, *TENANT_FAULTS, *OBJECT_FAULTS, *POD_FAULTS)
MIN_FAULTS, MIN_RIGHT = 60, 0.95


@pytest.fixture(scope="module")
def planes(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[LocalControlPlane, LocalControlPlane]]:
    """A super cluster with our kinds, and the API server of a tenant."""

    async def furnish(client: Client) -> None:
        await install_crds(client)
        await eventually(lambda: client.list(VIRTUAL_CLUSTERS), until=lambda _: True)
        await eventually(lambda: client.list(SUPER_CLUSTERS), until=lambda _: True)
        await furnish_super(client)

    folder = tmp_path_factory.mktemp("faults")
    plane = LocalControlPlane(folder / "super", name="super")
    tenant = LocalControlPlane(
        folder / "tenant", name="tenant", service_range="10.96.8.0/22", store_of=plane
    )
    with serving(plane, furnish), serving(tenant):
        yield plane, tenant


@pytest.fixture
def folder(planes: tuple[LocalControlPlane, LocalControlPlane], tmp_path: Path) -> Path:
    """A folder with the kubeconfigs of both administrators."""
    for plane in planes:
        (tmp_path / plane.name).write_bytes(plane.kubeconfig())
    return tmp_path


def first_link(done: CommandResult) -> str:
    """Return the first link that is wrong, otherwise the first that is not well."""
    rows = json.loads(done.stdout)
    wrong = [each["check"] for each in rows if each["state"] == "wrong"]
    others = [each["check"] for each in rows if each["state"] != "ok"]
    assert done.exit_code == (1 if wrong else 0), done.output
    return [*wrong, *others, "none"][0]


def layer(done: CommandResult) -> str:
    """Return the layer that `why` names."""
    assert done.exit_code == 0, done.output
    return str(json.loads(done.stdout)["layer"])


async def ask(world: FaultWorld, fault: Fault) -> str:
    """Return the layer that the administrator of the super cluster reads first."""
    if fault.verb == "why":
        return layer(await world.why(fault.wanted))
    return first_link(await world.doctor(of_tenant=fault.verb == "doctor NAME"))


async def look_as_tenant(world: FaultWorld, fault: Fault) -> set[str]:
    """Return the layers that the tenant reads, after a search for names that it must not know."""
    found = set()
    for done in await world.ask_as_tenant(fault.wanted):
        shown = done.output
        if done.exit_code == 0:
            for name in world.canaries:
                assert name not in shown, (fault.name, name, shown)
            if shown.startswith("{"):
                document = json.loads(shown)
                assert "copy" not in document
                found.add(str(document["layer"]))
    return found


async def test_the_layer_of_each_fault_is_named_first(
    planes: tuple[LocalControlPlane, LocalControlPlane], folder: Path
):
    """SEC-250: the tenant's views have no name of others."""
    named = 0
    wrong: list[str] = []
    of_tenant: list[str] = []
    for fault in FAULTS:
        async with sound_world(*planes, folder) as world:
            await fault.plant(world)
            seen = await ask(world, fault)
            if seen == fault.layer:
                named += 1
            else:
                wrong.append(f"{fault.name}: {seen} instead of {fault.layer}")
            if fault.verb == "why":
                read = await look_as_tenant(world, fault)
                if fault.tenant_layer and read != {fault.tenant_layer}:
                    of_tenant.append(f"{fault.name}: {read} instead of {fault.tenant_layer}")
    print(f"faults named right: {named} of {len(FAULTS)}")
    asked = sum(1 for fault in FAULTS if fault.tenant_layer)
    print(f"faults named right in the tenant: {asked - len(of_tenant)} of {asked}")
    assert len(FAULTS) >= MIN_FAULTS
    assert named >= MIN_RIGHT * len(FAULTS), wrong
    assert len(of_tenant) <= (1 - MIN_RIGHT) * asked, of_tenant
    assert not wrong, wrong


async def test_without_a_fault_nothing_is_named(
    planes: tuple[LocalControlPlane, LocalControlPlane], folder: Path
):
    async with sound_world(*planes, folder) as world:
        assert first_link(await world.doctor(of_tenant=False)) == "none"
        assert first_link(await world.doctor(of_tenant=True)) == "none"
        await world.pod(shapes.running())
        assert layer(await world.why("pod/web")) == "none"
        assert await look_as_tenant(world, Fault("none", "none", world.pod)) == {"none"}
