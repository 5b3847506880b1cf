"""The pages of `kubectl vc ui`, read from a real API server that is super cluster and tenant."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest

from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.ui import page_facts
from kubeio.api.client import Client
from tenancy import wellknown
from tenancy.resources import (
    CONFIG_MAPS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    VIRTUAL_CLUSTER_SNAPSHOTS,
    VIRTUAL_CLUSTERS,
)
from tests.integration.kubectl_vc.conftest import HOSTILE, Stage, UserTerminal
from tests.support.eventually import eventually
from tests.support.kubectl_vc.page_client import PageClient, serving


@pytest.fixture
async def pages(stage: Stage) -> AsyncIterator[PageClient]:
    """The pages of a person who may do everything."""
    async with open_pages(stage.desk) as client:
        yield client


@contextlib.asynccontextmanager
async def open_pages(desk: UserTerminal) -> AsyncIterator[PageClient]:
    """Serve the pages with the kubeconfig that the person has now."""
    path = desk.environment.get("KUBECONFIG", str(desk.folder / "super"))
    async with serving(ConfigFlags(kubeconfig=path, namespace=desk.namespace)) as client:
        yield client


async def write_certificates(stage: Stage, *, days: int) -> None:
    """Write the table as vc-manager does."""
    now = datetime.now(UTC)
    row = {
        "name": "apiserver",
        "kind": "certificate",
        "issued": (now - timedelta(days=1)).isoformat(),
        "expires": (now + timedelta(days=days, minutes=1)).isoformat(),
        "renewal": (now + timedelta(days=days - 30)).isoformat(),
    }
    metadata = {"name": wellknown.CERTIFICATES, "namespace": stage.tenant.root}
    data = {
        wellknown.CERTIFICATES_KEY: json.dumps([row]),
        wellknown.ROTATIONS_KEY: json.dumps([{"authority": "etcd", "stage": "trust-both"}]),
    }
    await stage.desk.client.create(
        CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    )


async def test_the_list_of_tenants_has_their_state_and_the_first_end(
    stage: Stage, pages: PageClient
):
    await write_certificates(stage, days=60)
    page = await pages.fetch(pages.urls.build_tenants())
    row = next(each for each in page.table("tenants") if each[0] == stage.desk.namespace)
    assert row[1:8] == ["web", "Pending", "True", "False", "60d", "v1.36", "baseline"]


async def test_a_tenant_has_conditions_certificates_namespaces_and_work_in_progress(
    stage: Stage, pages: PageClient
):
    await write_certificates(stage, days=3)
    snapshot = {
        "apiVersion": VIRTUAL_CLUSTER_SNAPSHOTS.api_version,
        "kind": "VirtualClusterSnapshot",
        "metadata": {"name": "before", "namespace": stage.tenant.namespace},
        "spec": {
            "virtualClusterName": "web",
            "storage": {"persistentVolumeClaim": {"claimName": "snapshots"}},
        },
    }
    await stage.desk.client.create(VIRTUAL_CLUSTER_SNAPSHOTS, snapshot)
    body = await stage.desk.fetch()
    await stage.report(body, "EtcdDown", "no answer", kind="VirtualCluster")
    page = await pages.fetch(pages.urls.build_tenant(*stage.place))
    assert page.status == 200
    assert [row[:3] for row in page.table("conditions")] == [
        ["Ready", "True", "Ready"],
        ["Synced", "False", "Stopped"],
    ]
    assert page.table("certificates")[0][:2] == ["apiserver", "certificate"]
    assert page.table("certificates")[0][3] == "3d"
    assert [row[0] for row in page.table("operations")] == ["rotation of etcd", "snapshot before"]
    assert page.table("namespaces")[0][:2] == [stage.space, stage.super_namespace]
    assert page.table("events")[0][2:5] == ["EtcdDown", "VirtualCluster web", "no answer"]
    # The message of the condition is text, and cannot turn the text around it.
    assert "<script>alert" not in page.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\u202etxt" in page.text


async def test_objects_are_beside_their_copies(stage: Stage, pages: PageClient):
    await stage.copy(await stage.write_pod("a-synced"), node="node-1")
    refused = await stage.write_pod("b-refused")
    await stage.report(refused, "SyncRejected", f"spec.hostNetwork: not allowed {HOSTILE}")
    await stage.copy(await stage.write_pod("c-stranger"), uid="another")
    path = pages.urls.build_namespace(*stage.place, stage.space)
    page = await pages.fetch(path)
    rows = {row[0]: row[1:] for row in page.table("objects")}
    assert rows["a-synced"][:5] == ["Pending", "Pending", "node-1", "", "< 1s"]
    assert rows["b-refused"][:2] == ["Pending", "none"]
    assert rows["b-refused"][4].startswith("waiting for ")
    assert rows["b-refused"][5].startswith("SyncRejected: spec.hostNetwork: not allowed")
    assert rows["c-stranger"][1] == "another owner's object"
    assert "<script>alert" not in page.text
    assert 'hx-trigger="every 2s"' in page.text
    part = await pages.fetch(path + "?part=live")
    assert "<html" not in part.text
    assert [row[:5] for row in part.table("objects")] == [row[:5] for row in page.table("objects")]
    paused = await pages.fetch(path + "?pause=1")
    assert "hx-trigger" not in paused.text
    copies = await pages.fetch(pages.urls.build_namespace(*stage.place, stage.space, by="copies"))
    assert [row[0] for row in copies.table("objects")] == ["a-synced", "c-stranger"]


async def test_a_pod_has_a_page_of_its_own(stage: Stage, pages: PageClient):
    body = await stage.write_pod("web-0")
    await stage.report(body, "FailedScheduling", "no node")
    copy = await stage.copy(body)
    await stage.report(copy, "Pulling", "image a")
    page = await pages.fetch(pages.urls.build_namespace(*stage.place, stage.space))
    found = await pages.fetch(page.link("p-web-0"))
    assert sorted(row[2] for row in found.table("events")) == ["FailedScheduling", "Pulling"]
    assert f"{stage.super_namespace}/web-0" in found.text
    # The answer of `kubectl vc why`: no syncer runs beside this API server.
    assert "Held by" in found.text
    missing = await pages.fetch(pages.urls.build_pod(*stage.place, stage.space, "nope"))
    assert (missing.status, "was not found" in missing.text) == (404, True)


async def test_a_list_has_pages(stage: Stage, pages: PageClient, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(page_facts, "OBJECTS_PER_PAGE", 2)
    for name in ("a", "b", "c"):
        await stage.write_pod(name)
    first = await pages.fetch(pages.urls.build_namespace(*stage.place, stage.space))
    assert [row[0] for row in first.table("objects")] == ["a", "b"]
    second = await pages.fetch(first.link("next"))
    assert [row[0] for row in second.table("objects")] == ["c"]
    assert "hx-trigger" not in second.text


async def test_no_value_of_a_secret_is_on_a_page(stage: Stage, pages: PageClient):
    """SEC-261."""
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "pass", "namespace": stage.space},
        "stringData": {"password": "a-secret-value"},
    }
    await stage.desk.client.create(SECRETS, body)
    page = await pages.fetch(pages.urls.build_namespace(*stage.place, stage.space, kind="secrets"))
    assert page.table("objects")[0][:3] == ["pass", "exists", "none"]
    assert "a-secret-value" not in page.text


async def grant(stage: Stage, user: str, namespace: str, resources: list[str], group: str) -> None:
    """Let a user read kinds in one namespace."""
    rbac = "rbac.authorization.k8s.io"
    head = {"apiVersion": f"{rbac}/v1", "metadata": {"name": user, "namespace": namespace}}
    rule = {"apiGroups": [group], "resources": resources, "verbs": ["get", "list"]}
    await stage.desk.client.create(ROLES, {**head, "kind": "Role", "rules": [rule]})
    binding = {
        "roleRef": {"apiGroup": rbac, "kind": "Role", "name": user},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": user}],
    }
    await stage.desk.client.create(ROLE_BINDINGS, {**head, "kind": "RoleBinding", **binding})


async def test_without_rights_in_the_tenant_the_super_side_is_shown_alone(stage: Stage):
    """SEC-261."""
    await stage.copy(await stage.write_pod("web-0"), node="node-1")
    await grant(stage, "joe", stage.desk.namespace, ["virtualclusters"], "tenancy.x-k8s.io")
    await grant(stage, "joe", stage.super_namespace, ["pods", "events"], "")
    async with Client(stage.desk.plane.endpoint_for("joe")) as joe:
        await eventually(
            lambda: joe.list(VIRTUAL_CLUSTERS, namespace=stage.desk.namespace), within=20
        )
        await eventually(lambda: joe.list(PODS, namespace=stage.super_namespace), within=20)
    stage.desk.become("joe")
    async with open_pages(stage.desk) as pages:
        page = await pages.fetch(pages.urls.build_namespace(*stage.place, stage.space))
        assert page.table("objects")[0][:4] == ["web-0", "not read", "Pending", "node-1"]
        assert "You may not read the Secret" in page.text
        tenant = await pages.fetch(pages.urls.build_tenant(*stage.place))
        assert "You (joe) may not list namespaces" in tenant.text
        services = await pages.fetch(
            pages.urls.build_namespace(*stage.place, stage.space, kind="services")
        )
        assert "You (joe) may not list services" in services.text


async def test_a_tenant_that_does_not_answer_leaves_the_super_side(stage: Stage):
    await stage.copy(await stage.write_pod("web-0"))
    secret = {"stringData": {"admin-kubeconfig": unreachable(stage.desk.plane.kubeconfig())}}
    await stage.desk.client.patch(SECRETS, "admin-kubeconfig", secret, namespace=stage.tenant.root)
    async with open_pages(stage.desk) as pages:
        page = await pages.fetch(pages.urls.build_namespace(*stage.place, stage.space))
        assert page.table("objects")[0][:3] == ["web-0", "not read", "Pending"]
        assert "The tenant&#39;s API cannot be read" in page.text
        again = await pages.fetch(pages.urls.build_namespace(*stage.place, stage.space))
        assert "did not answer a moment ago" in again.text


def unreachable(kubeconfig: bytes) -> str:
    """Return the kubeconfig with a port on which nothing listens."""
    document = json.loads(kubeconfig)
    document["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    return json.dumps(document)


async def test_the_command_serves_until_it_is_interrupted(desk: UserTerminal):
    running = await desk.start("ui", "--no-browser")
    assert running.process.stdout is not None
    line = await asyncio.wait_for(running.process.stdout.readline(), 30)
    async with aiohttp.ClientSession() as session, session.get(line.decode().strip()) as answer:
        assert answer.status == 200
        assert "SameSite=Strict" in answer.headers["Set-Cookie"]
    running.process.send_signal(signal.SIGINT)
    done = await running.end(within=20)
    assert (done.code, done.err.startswith("This URL is a key")) == (0, True), done


async def test_a_port_in_use_is_an_error(desk: UserTerminal):
    done = await desk.run("ui", "--no-browser", "--port", desk.plane.server.rpartition(":")[2])
    assert (done.code, "cannot be used" in done.err) == (1, True), done
