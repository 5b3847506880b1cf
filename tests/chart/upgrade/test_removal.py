"""`helm uninstall` keeps tenants, an installation adopts them, and docs/install.md removes all."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kubeio import Object
from kubeio.api.client import Client
from tenancy import resources, wellknown
from tenancy.resources import Resource
from tests.chart.gate import space
from tests.chart.upgrade.conftest import Declare
from tests.chart.upgrade.product import CURRENT, InstalledProduct, LiveTenant
from tests.support.eventually import eventually
from tests.support.helm import NAMESPACE, RELEASE
from tools.testbed.artifacts import binaries
from tools.testbed.artifacts.product import REPOSITORY

pytestmark = pytest.mark.integration

PAGE = REPOSITORY / "docs" / "install.md"
ADMISSION = "admissionregistration.k8s.io"
POLICIES = (
    Resource(ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", False),
    Resource(
        ADMISSION,
        "v1",
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        False,
    ),
    Resource(
        ADMISSION,
        "v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        False,
    ),
    Resource(
        ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False
    ),
)
STAYS_BEHIND = {("events", "default"), ("events", NAMESPACE)}
"""As docs/install.md lists. Events end by themselves."""


async def list_admission(client: Client) -> list[str]:
    found = []
    for resource in POLICIES:
        page = await client.list(resource)
        found += [each["metadata"]["name"] for each in page.get("items") or ()]
    return found


async def list_everything(client: Client) -> set[tuple[str, str, str]]:
    """Return kind, namespace and name of every object in the cluster that can be listed."""
    groups = ["/api/v1"]
    listed = json.loads(await client.raw("GET", "/apis"))["groups"]
    groups += [f"/apis/{each['preferredVersion']['groupVersion']}" for each in listed]
    found = set()
    for path in groups:
        for each in json.loads(await client.raw("GET", path))["resources"]:
            if "list" not in each["verbs"] or "/" in each["name"]:
                continue
            items = json.loads(await client.raw("GET", f"{path}/{each['name']}"))["items"] or ()
            found |= {
                (each["name"], item["metadata"].get("namespace", ""), item["metadata"]["name"])
                for item in items
            }
    return found


async def is_replaced(tenant: LiveTenant, name: str, uid: str) -> bool:
    """Return whether the super cluster's controllers have created another pod of the name."""
    pods = await tenant.record_pods()
    return name in pods and pods[name] != uid


@pytest.mark.timeout(600)
async def test_uninstall_keeps_tenants_and_the_next_install_restarts_none(
    product: InstalledProduct, declare: Declare
):
    """REL-162."""
    admin = product.admin
    await product.install(CURRENT)
    async with product.running(CURRENT, wellknown.MANAGER):
        tenant = await declare()
        await tenant.work()
    web = space(tenant.tenant)
    await admin.create(resources.NAMESPACES, web)
    first, templates = await tenant.record(), await tenant.record_templates()

    await product.helm("uninstall", RELEASE)
    assert await eventually(lambda: list_admission(admin), until=lambda found: not found) == []
    assert await tenant.record() == first
    # Pods of control planes are replaced, and pods of tenants are created.
    pods = await tenant.record_pods()
    await admin.delete(resources.PODS, "etcd-0", namespace=tenant.tenant.root, grace_seconds=0)
    await eventually(lambda: is_replaced(tenant, "etcd-0", pods["etcd-0"]))
    pod = {
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}]},
    }
    await admin.create(resources.PODS, pod, namespace=web["metadata"]["name"])
    before = await tenant.record_pods()

    await product.install(CURRENT)
    mark = product.plane.audit_mark()
    async with product.running(CURRENT, wellknown.MANAGER):
        await tenant.work()
    assert product.list_refusals(mark) == []
    assert await tenant.record() == first
    assert await tenant.record_templates() == templates
    assert await tenant.record_pods() == before


def read_removal() -> str:
    """Return the commands of the page that remove everything."""
    part = PAGE.read_text().partition("### Remove everything")[2]
    found = re.search(r"```bash\n(.*?)```", part, re.DOTALL)
    assert found
    return found[1]


def write_programs(folder: Path) -> str:
    """Return a PATH with kubectl, helm and the plugin of this checkout."""
    plugin = folder / "kubectl-vc"
    plugin.write_text(
        f"#!/bin/sh\nPYTHONPATH={REPOSITORY} exec {sys.executable}"
        ' -c "from kubectl_vc.app import main; main()" "$@"\n'
    )
    plugin.chmod(0o755)
    folders = (folder, binaries.path("kubectl").parent, binaries.path("helm").parent)
    return os.pathsep.join([*map(str, folders), os.environ["PATH"]])


async def _run(script: str, environment: dict[str, Any]) -> None:
    done = await asyncio.to_thread(
        subprocess.run,
        ["bash", "-euxo", "pipefail", "-c", script],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.mark.timeout(600)
async def test_the_documented_commands_leave_nothing(
    product: InstalledProduct, declare: Declare, tmp_path: Path
):
    """REL-163: the cluster has exactly the objects from before the installation."""
    admin = product.admin
    await remove_leftovers(product, tmp_path)
    before = await list_everything(admin)
    await product.install(CURRENT)
    async with product.running(CURRENT, wellknown.MANAGER):
        tenants = [await declare(), await declare()]
        for tenant in tenants:
            await tenant.work()
            await admin.create(resources.NAMESPACES, space(tenant.tenant))
        await admin.create(resources.VIRTUAL_CLUSTER_SNAPSHOTS, snapshot(tenants[0]))
        await run_removal(product, tmp_path)

    async def left() -> set[tuple[str, str, str]]:
        return {
            each for each in await list_everything(admin) - before if each[:2] not in STAYS_BEHIND
        }

    assert await eventually(left, until=lambda found: not found, within=60) == set()
    assert before <= await list_everything(admin)


def snapshot(tenant: LiveTenant) -> Object:
    return {
        "apiVersion": resources.VIRTUAL_CLUSTER_SNAPSHOTS.api_version,
        "kind": resources.VIRTUAL_CLUSTER_SNAPSHOTS.kind,
        "metadata": {"name": "kept", "namespace": "default"},
        "spec": {"virtualClusterName": tenant.tenant.name},
    }


async def run_removal(product: InstalledProduct, folder: Path) -> None:
    """Run the commands of the page."""
    environment = {
        **os.environ,
        "KUBECONFIG": str(product.kubeconfig),
        "PATH": write_programs(folder),
    }
    await _run(read_removal(), environment)


async def remove_leftovers(product: InstalledProduct, folder: Path) -> None:
    """Remove what another test of this module installed."""
    releases = json.loads(await product.helm("list", "-o", "json"))
    if releases:
        async with product.running(CURRENT, wellknown.MANAGER):
            await run_removal(product, folder)
