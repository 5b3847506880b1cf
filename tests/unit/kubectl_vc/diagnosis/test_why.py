"""`kubectl vc why`: its arguments, and what its report has."""

import contextlib
import io
import json
from dataclasses import replace
from typing import Any

import pytest

from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.client.connection import SuperConnection
from kubectl_vc.diagnosis import tenant_access, why
from kubectl_vc.diagnosis.layer_table import diagnose
from kubectl_vc.diagnosis.layers import LAYERS
from kubectl_vc.output.printers import ReportFormat
from kubectl_vc.output.terminal import Terminal
from kubeio import errors
from tenancy.resources import PODS
from tests.support.kubectl_vc.command_runner import invoke
from tests.support.kubectl_vc.object_faults import (
    bare,
    both,
    event,
    facts,
    node,
    pod,
    super_facts,
    virtual_cluster,
)

REFUSED = event("SyncRejected", "spec.hostNetwork must not be true.", syncer=True, seconds=120)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("why", "pod"), 2, "is not KIND/NAME"),
        (("why", ""), 2, "is empty"),
        (("why", "pod/web", "--as-tenant"), 2, "--as-tenant needs --vc"),
        (("why", "pod/web", "--vc", "A"), 2, "is not a VirtualCluster"),
        (("why", "pod/web", "--vc", "web", "-n", "A"), 2, "is not a namespace"),
        (("why", "pod/web", "-o", "yaml"), 2, "must be one of table, json"),
        (("why", "pod/web", "--kubeconfig", "/none"), 1, "/none"),
        (("doctor", "-o", "name"), 2, "must be one of table, json"),
        (("doctor", ""), 2, "NAME is empty"),
        (("doctor", "--kubeconfig", "/none"), 1, "/none"),
    ],
)
def test_bad_input_is_one_clear_sentence(words, code, said):
    done = invoke(*words)
    assert said in done.stderr
    assert done.exit_code == code
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == (2 if code == 2 else 1), "usage errors name the help"


CONNECTED = """
clusters:
- {name: home, cluster: {server: "https://127.0.0.1:7"}}
- {name: tenant, cluster: {server: "https://127.0.0.1:9"}}
users: [{name: ann, user: {token: t}}]
contexts:
- {name: home, context: {cluster: home, user: ann}}
- name: vc
  context:
    cluster: tenant
    user: ann
    extensions: [{name: kubectl-vc, extension: {superContext: home}}]
current-context: vc
"""


@pytest.mark.parametrize(("words", "port"), [((), 9), (("--vc", "shop"), 7)])
def test_a_connected_context_is_the_tenants_unless_a_virtual_cluster_is_named(
    words, port, tmp_path
):
    path = tmp_path / "config"
    path.write_text(CONNECTED)
    done = invoke("why", "pod/web", "--kubeconfig", str(path), *words)
    assert f"127.0.0.1:{port}" in done.stderr


def report(found):
    """Return the lines of a report by their heads."""
    lines = why.build_report(found, diagnose(found, LAYERS)).splitlines()
    return {head.strip(): text.strip() for head, _, text in (line.partition(":") for line in lines)}


def test_report_of_a_refused_pod():
    found = report(facts(bare(), super_facts(), tenant_events=[REFUSED]))
    assert found["Object"] == "Pod shop/web"
    assert found["Wanted since"] == "2026-11-28T11:50:00Z (10m ago)"
    assert found["Copy"] == "none"
    assert found["Node"] == "none"
    assert found["Last Event"].startswith("SyncRejected (2m")
    assert found["Held by"] == "policy"
    assert found["Reason"].endswith("spec.hostNetwork must not be true.")
    assert found["Next"] == "kubectl describe pod web -n shop"


def test_report_of_a_sound_pod():
    found = report(both(pod()))
    assert found["Held by"] == "nothing"
    assert "Next" not in found


def test_document_of_a_tenant_has_no_copy():
    found = both(pod())
    document = why.build_document(found, diagnose(found, LAYERS))
    assert document["copy"]
    hidden = replace(found, super_facts=None)
    document = why.build_document(hidden, diagnose(hidden, LAYERS))
    assert "copy" not in document
    assert json.dumps(document)


async def test_tenant_view_reads_nothing_of_the_super_cluster(monkeypatch):
    """SEC-250: only the VirtualCluster and the kubeconfig are read, before the tenant's own API."""
    read: list[str] = []

    class SuperClient:
        async def get(self, resource: Any, *_: Any, **__: Any) -> dict[str, Any]:
            read.append(resource.kind)
            return virtual_cluster()

    class TenantClient:
        async def get(self, resource: Any, *_: Any, **__: Any) -> dict[str, Any]:
            return pod() if resource is PODS else node()

        async def list(self, *_: Any, **__: Any) -> dict[str, Any]:
            return {"items": []}

    @contextlib.asynccontextmanager
    async def connect_super(*_: Any):
        yield SuperConnection(SuperClient(), "default", is_explicit=False)  # type: ignore[arg-type]

    @contextlib.asynccontextmanager
    async def connect_tenant(*_: Any):
        yield TenantClient()

    monkeypatch.setattr(why, "connect_super_cluster", connect_super)
    monkeypatch.setattr(tenant_access, "connect_tenant", connect_tenant)
    out = io.StringIO()
    options = why.WhyOptions(
        virtual_cluster="web", as_tenant=True, manager_namespace="m", form=ReportFormat.JSON
    )
    await why.run_why(ConfigFlags(), Terminal(out, out), wanted="pod/web", options=options)
    assert read == ["VirtualCluster"]
    assert json.loads(out.getvalue())["layer"] == "none"


async def test_tenant_view_does_not_ask_the_super_cluster_for_a_kind(monkeypatch):
    """SEC-250: also if the tenant's API is down."""
    asked: list[str] = []

    class SuperClient:
        async def get(self, *_: Any, **__: Any) -> dict[str, Any]:
            return virtual_cluster()

        async def raw(self, _: str, path: str, **__: Any) -> bytes:
            asked.append(path)
            return b"{}"

    class TenantClient:
        async def raw(self, *_: Any, **__: Any) -> bytes:
            raise errors.Unavailable("the API server is down")

    @contextlib.asynccontextmanager
    async def connect_super(*_: Any):
        yield SuperConnection(SuperClient(), "default", is_explicit=False)  # type: ignore[arg-type]

    @contextlib.asynccontextmanager
    async def connect_tenant(*_: Any):
        yield TenantClient()

    monkeypatch.setattr(why, "connect_super_cluster", connect_super)
    monkeypatch.setattr(tenant_access, "connect_tenant", connect_tenant)
    out = io.StringIO()
    options = why.WhyOptions(
        virtual_cluster="web", as_tenant=True, manager_namespace="m", form=ReportFormat.JSON
    )
    with pytest.raises(errors.Unavailable):
        await why.run_why(ConfigFlags(), Terminal(out, out), wanted="route/web", options=options)
    assert asked == []


def test_unreadable_sides_are_unknown():
    found = report(facts(None, super_facts(is_copy_known=False), is_tenant_known=False))
    assert (found["Tenant"], found["Copy"]) == ("unknown", "unknown")
