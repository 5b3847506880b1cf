"""The pages of `kubectl vc ui` in a real headless Chromium.

With `SCREENSHOTS=1` the last test also writes the pictures of docs/ui.md. Their texts come from the
code of vc-manager and of the syncer.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.policy.decision import decide_object
from kubeio import Object
from syncer.tenants import conditions as synced_conditions
from tenancy.policies import BASELINE_POLICY
from tenancy.resources import CONFIG_MAPS, NAMESPACES, PODS, VIRTUAL_CLUSTERS
from tests.integration.kubectl_vc.conftest import HOSTILE, Stage, UserTerminal, build_stage, pod
from tests.support.eventually import eventually
from tests.support.kubectl_vc.page_client import serving
from tests.support.webdriver import Browser, open_browser
from tools.packages import ROOT
from vcmanager.plan import certificate_table, control_plane
from vcmanager.plan.component_status import COMPONENT_CONDITIONS, evaluate_component
from vcmanager.runtime.certificate_expiry import CertificateValidity
from vcmanager.runtime.status import ReconcileStatus

pytestmark = pytest.mark.slow  # the browser alone has more than the images of all components
PICTURES = ROOT / "docs" / "images"
SHOWN = {("namespace", "light"), ("tenant", "dark")}
"""Pictures that docs/ui.md has."""
EVIL = f"{HOSTILE}<img src=x onerror='window.hacked = 1'>"


@pytest.fixture
async def browser(tmp_path: Path) -> AsyncIterator[Browser]:
    """A headless Chromium."""
    async with open_browser(tmp_path) as found:
        yield found


READY_WORKLOAD = {
    "metadata": {"generation": 1},
    "spec": {"replicas": 1},
    "status": {
        "observedGeneration": 1,
        **dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas", "availableReplicas"), 1),
    },
}
LIFETIME = timedelta(days=90)
"""Lifetime of certificates, as by default."""


async def write_running_status(stage: Stage) -> None:
    """Write the status of a running tenant, as vc-manager and the syncer build it."""
    client, begun = stage.desk.client, datetime.now(UTC)
    body = await stage.desk.fetch(stage.tenant.name)
    report = ReconcileStatus(
        generation=body["metadata"]["generation"],
        now=begun.strftime("%Y-%m-%dT%H:%M:%SZ"),
        cluster_namespace=stage.tenant.root,
        endpoint="https://10.64.0.11:30302",
        version="v1.36.4",
    )
    for name in (control_plane.ETCD, control_plane.API_SERVER, control_plane.CONTROLLER_MANAGER):
        found = evaluate_component(name, READY_WORKLOAD, ())
        assert found.is_ready
        report.set_condition(COMPONENT_CONDITIONS[name], "True", found.reason, found.message)
    report.summarize(blocked=None, is_stalled=False, is_deleting=False)
    status = report.build_status({})
    synced = synced_conditions.build_synced(
        reason=synced_conditions.ENGAGED,
        message="All of the tenant's objects are synced.",
        generation=report.generation,
    )
    status["conditions"] += [{**synced, "lastTransitionTime": report.now}]
    await client.patch(
        VIRTUAL_CLUSTERS,
        stage.tenant.name,
        {"status": status},
        namespace=stage.tenant.namespace,
        subresource="status",
    )
    ends = CertificateValidity(
        issued=begun, renewal=begun + LIFETIME * 2 / 3, expires=begun + LIFETIME
    )
    names = ("admin-kubeconfig", "apiserver", "etcd-server")
    table = certificate_table.build_config_map(dict.fromkeys(names, ends), stage.tenant.root)
    await client.create(CONFIG_MAPS, table)


def explain_refusal(body: Object) -> str:
    """Return the message of the Event that the syncer writes about an object it refuses."""
    (decision,) = decide_object(body, BASELINE_POLICY)
    return " ".join(map(str, decision.refusals))


def access(desk: UserTerminal) -> ConfigFlags:
    return ConfigFlags(kubeconfig=str(desk.folder / "super"), namespace=desk.namespace)


async def shows(browser: Browser, text: str, *, where: str = "#objects") -> None:
    """Wait until an element has a text."""
    await eventually(lambda: browser.text(where), until=lambda found: text in found, within=60)


async def test_a_pod_is_created_refused_synced_and_deleted_before_the_eyes_of_a_user(
    stage: Stage, browser: Browser
):
    client = stage.desk.client
    async with serving(access(stage.desk), logged_in=False) as pages:
        await browser.open(pages.secret.url)
        await shows(browser, "web", where="#tenants")
        # The secret has left the address, and scripts of the page cannot read the cookie.
        assert pages.secret.key not in await browser.url()
        assert await browser.run("return document.cookie") == ""
        (cookie,) = await browser.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        assert cookie["path"] == pages.secret.prefix

        await browser.click(f"#t-{stage.desk.namespace}-web")
        await shows(browser, stage.space, where="#namespaces")
        await browser.click(f"#n-{stage.space}")
        await shows(browser, "No objects.")
        await browser.run("window.marker = 1")

        body = await stage.write_pod("first")
        await shows(browser, "first")
        await shows(browser, "waiting for")
        await stage.report(body, "SyncRejected", f"spec.hostNetwork is not allowed {EVIL}")
        await shows(browser, "SyncRejected: spec.hostNetwork is not allowed <script>")
        await stage.copy(await stage.write_pod("second"), node="node-1")
        await shows(browser, "node-1")
        await client.delete(PODS, "first", namespace=stage.space, grace_seconds=0)
        await eventually(
            lambda: browser.text("#objects"), until=lambda text: "first" not in text, within=60
        )
        # All of it without a reload, and the tenant's text ran nowhere.
        assert await browser.run("return [window.marker, window.hacked]") == [1, None]

        await browser.click("#p-second")
        await shows(browser, "web", where="nav")
        assert "node-1" in await browser.text("#live")
        assert await browser.logs() == []


async def test_the_pages_can_be_used_by_keyboard(stage: Stage, browser: Browser):
    await stage.write_pod("only")
    async with serving(access(stage.desk), logged_in=False) as pages:
        await browser.open(pages.secret.url)
        await shows(browser, "web", where="#tenants")
        await browser.press("tab")
        assert await browser.focused() == "Skip to the content"
        await browser.press("enter")
        assert await browser.run("return document.activeElement.id") == "main"
        await browser.press("tab")
        assert await browser.focused() == "Pause"
        outline = "return getComputedStyle(document.activeElement).outlineStyle"
        assert await browser.run(outline) == "solid"
        await browser.press("tab")
        assert await browser.focused() == "web"
        await browser.press("enter")
        await shows(browser, stage.space, where="#namespaces")

        await browser.open(pages.origin + pages.urls.build_namespace(*stage.place, stage.space))
        await browser.run("document.getElementById('p-only').focus(); window.swaps = 0")
        await browser.run(
            "document.body.addEventListener('htmx:afterSettle', () => { window.swaps += 1 })"
        )
        await eventually(lambda: browser.run("return window.swaps"), within=60)
        assert await browser.run("return document.activeElement.id") == "p-only"


async def test_a_page_reports_that_its_server_is_gone(stage: Stage, browser: Browser):
    async with serving(access(stage.desk), logged_in=False) as pages:
        await browser.open(pages.secret.url)
        await shows(browser, "web", where="#tenants")
        assert await browser.run("return document.getElementById('stale').hidden") is True
    await shows(browser, "did not answer", where="#stale")


async def test_the_pages_follow_the_colours_that_the_user_prefers(
    desk: UserTerminal, browser: Browser
):
    metadata = {"name": "team-a"}
    await desk.client.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    )
    await desk.client.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    )
    shown = replace(desk, namespace="team-a")
    stage = await build_stage(shown, "shop")
    await write_running_status(stage)
    for name in ("cart-0", "cart-1"):
        body = await stage.write_pod(name)
        for each in (body, await stage.copy(body, node="node-1")):
            await desk.client.patch(
                PODS,
                name,
                {"status": {"phase": "Running"}},
                namespace=each["metadata"]["namespace"],
                subresource="status",
            )
    refused = pod("debug", "shop")
    refused["spec"]["hostNetwork"] = True
    refused = await desk.client.create(PODS, refused)
    message = explain_refusal(refused)
    assert "hostNetwork" in message
    await stage.report(refused, "SyncRejected", message)
    async with serving(access(shown), logged_in=False) as pages:
        await browser.open(pages.secret.url)
        await shows(browser, "web", where="#tenants")
        colours = {}
        for scheme in ("light", "dark"):
            await browser.prefer(scheme)
            for picture, path in (
                ("tenants", pages.urls.build_tenants(pause="1")),
                ("tenant", pages.urls.build_tenant(*stage.place, pause="1")),
                ("namespace", pages.urls.build_namespace(*stage.place, "shop", pause="1")),
            ):
                await browser.open(pages.origin + path)
                assert "web" in await browser.text()
                content = await browser.screenshot()
                assert content.startswith(b"\x89PNG")
                if os.environ.get("SCREENSHOTS") and (picture, scheme) in SHOWN:
                    PICTURES.mkdir(exist_ok=True)
                    (PICTURES / f"ui-{picture}-{scheme}.png").write_bytes(content)
            colours[scheme] = await browser.run(
                "const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]"
            )
        assert colours["light"][0] == "rgb(255, 255, 255)"
        assert colours["dark"][0] == "rgb(13, 17, 23)"
        assert colours["light"][1] != colours["dark"][1]
        assert await browser.logs() == []
