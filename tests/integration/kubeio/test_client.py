"""The verbs against a real server: what each answer turns into."""

from __future__ import annotations

import asyncio

import pytest

from kubeio import errors
from kubeio.api.client import Client
from kubeio.config.loading import load_tenant_kubeconfig
from tenancy.resources import CONFIG_MAPS, NAMESPACES, PODS, SERVICE_ACCOUNTS
from tests.support import wires
from tests.support.account_tokens import request_account_token
from tests.support.controlplane import LocalControlPlane
from tests.support.eventually import eventually
from tests.support.names import fresh_name, fresh_namespace


def _config_map(namespace: str, name: str, **data: str) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data,
    }


def _pod(namespace: str, name: str) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    }


@pytest.fixture(autouse=True, params=wires.NAMES)
def wire_in_use(request, monkeypatch):
    """The same from real servers, whichever the wire."""
    wires.use(request.param, monkeypatch)


@pytest.fixture
async def client(tenant_plane: LocalControlPlane):
    async with Client(load_tenant_kubeconfig(tenant_plane.kubeconfig(), name="tenant")) as client:
        yield client


async def test_create_get_replace_delete(client):
    namespace = await fresh_namespace(client)
    made = await client.create(CONFIG_MAPS, _config_map(namespace, "a", x="1"))
    made["data"]["x"] = "2"
    await client.replace(CONFIG_MAPS, made)
    found = await client.get(CONFIG_MAPS, "a", namespace=namespace)
    assert found["data"] == {"x": "2"}
    await client.delete(CONFIG_MAPS, "a", namespace=namespace, uid=found["metadata"]["uid"])
    with pytest.raises(errors.NotFound):
        await client.get(CONFIG_MAPS, "a", namespace=namespace)


async def test_encoded_bodies_are_sent_as_they_are(client):
    namespace = await fresh_namespace(client)
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1"}}'
    made = await client.create(CONFIG_MAPS, body, namespace=namespace)
    assert made["data"] == {"x": "1"}


async def test_a_taken_name_and_an_old_version_are_two_errors(client):
    namespace = await fresh_namespace(client)
    made = await client.create(CONFIG_MAPS, _config_map(namespace, "a"))
    with pytest.raises(errors.AlreadyExists, match=r"tenant: POST .* already exists"):
        await client.create(CONFIG_MAPS, _config_map(namespace, "a"))
    await client.patch(CONFIG_MAPS, "a", {"data": {"x": "1"}}, namespace=namespace)
    with pytest.raises(errors.Conflict):
        await client.replace(CONFIG_MAPS, made)


async def test_a_delete_with_another_uid_is_a_conflict(client):
    namespace = await fresh_namespace(client)
    await client.create(CONFIG_MAPS, _config_map(namespace, "a"))
    with pytest.raises(errors.Conflict, match="UID in the precondition"):
        await client.delete(CONFIG_MAPS, "a", namespace=namespace, uid="another")
    await client.get(CONFIG_MAPS, "a", namespace=namespace)


async def test_the_three_kinds_of_patch(client):
    namespace = await fresh_namespace(client)
    await client.create(PODS, _pod(namespace, "a"))
    merged = await client.patch(
        PODS, "a", {"metadata": {"labels": {"x": "1"}}}, namespace=namespace
    )
    assert merged["metadata"]["labels"] == {"x": "1"}
    strategic = {"spec": {"containers": [{"name": "main", "image": "busybox:2"}]}}
    found = await client.patch(PODS, "a", strategic, namespace=namespace, kind="strategic")
    assert found["spec"]["containers"][0]["image"] == "busybox:2"
    operations = [{"op": "remove", "path": "/metadata/labels/x"}]
    found = await client.patch(PODS, "a", operations, namespace=namespace, kind="json")
    assert "labels" not in found["metadata"]


async def test_status_is_a_subresource(client):
    namespace = await fresh_namespace(client)
    await client.create(PODS, _pod(namespace, "a"))
    status = {"status": {"phase": "Running"}}
    found = await client.patch(PODS, "a", status, namespace=namespace, subresource="status")
    assert found["status"]["phase"] == "Running"


async def test_a_binding_is_a_created_subresource(client):
    namespace = await fresh_namespace(client)
    await client.create(PODS, _pod(namespace, "a"))
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "a", "namespace": namespace},
        "target": {"kind": "Node", "name": "n1"},
    }
    await client.create(PODS, binding, name="a", subresource="binding")
    found = await client.get(PODS, "a", namespace=namespace)
    assert found["spec"]["nodeName"] == "n1"


async def test_apply_drops_what_is_no_longer_sent_and_keeps_what_others_set(client):
    namespace = await fresh_namespace(client)
    await client.apply(CONFIG_MAPS, _config_map(namespace, "a", x="1", y="1"), field_manager="us")
    await client.apply(CONFIG_MAPS, _config_map(namespace, "a", z="1"), field_manager="them")
    found = await client.apply(CONFIG_MAPS, _config_map(namespace, "a", x="1"), field_manager="us")
    assert found["data"] == {"x": "1", "z": "1"}
    with pytest.raises(errors.Conflict) as caught:
        await client.apply(
            CONFIG_MAPS, _config_map(namespace, "a", z="2"), field_manager="us", force=False
        )
    assert caught.value.has_cause("FieldManagerConflict")


async def test_a_dry_run_changes_nothing(client):
    namespace = await fresh_namespace(client)
    await client.create(CONFIG_MAPS, _config_map(namespace, "a"), dry_run=True)
    with pytest.raises(errors.NotFound):
        await client.get(CONFIG_MAPS, "a", namespace=namespace)
    await client.create(CONFIG_MAPS, _config_map(namespace, "a"))
    await client.delete(CONFIG_MAPS, "a", namespace=namespace, dry_run=True)
    await client.get(CONFIG_MAPS, "a", namespace=namespace)


async def test_strict_validation_names_the_unknown_field(client):
    namespace = await fresh_namespace(client)
    wrong = {**_config_map(namespace, "a"), "dta": {}}
    with pytest.raises(errors.BadRequest, match='unknown field "dta"'):
        await client.create(CONFIG_MAPS, wrong, validation="Strict")


async def test_invalid_objects_report_the_fields(client):
    namespace = await fresh_namespace(client)
    pod = _pod(namespace, "a")
    pod["spec"]["containers"] = []
    with pytest.raises(errors.Invalid) as caught:
        await client.create(PODS, pod)
    assert [cause["field"] for cause in caught.value.causes] == ["spec.containers"]


async def test_a_user_without_rights_is_forbidden(tenant_plane):
    async with Client(tenant_plane.endpoint_for("nobody")) as client:
        with pytest.raises(errors.Forbidden, match='User "nobody" cannot list'):
            await client.list(PODS)


async def test_a_terminating_namespace_is_a_cause_of_forbidden(client):
    namespace = await fresh_namespace(client)
    await client.delete(NAMESPACES, namespace)  # no controller runs, so it stays terminating
    with pytest.raises(errors.Forbidden) as caught:
        await client.create(CONFIG_MAPS, _config_map(namespace, "a"))
    assert caught.value.has_cause("NamespaceTerminating")


async def test_lists_are_paged_and_selected(client):
    namespace = await fresh_namespace(client)
    for number in range(5):
        made = _config_map(namespace, f"a{number}")
        made["metadata"]["labels"] = {"odd": str(number % 2)}
        await client.create(CONFIG_MAPS, made)
    page = await client.list(CONFIG_MAPS, namespace=namespace, limit=3)
    rest = await client.list(
        CONFIG_MAPS, namespace=namespace, limit=3, continue_token=page["metadata"]["continue"]
    )
    names = [item["metadata"]["name"] for item in page["items"] + rest["items"]]
    assert names == ["a0", "a1", "a2", "a3", "a4"]
    odd = await client.list(CONFIG_MAPS, namespace=namespace, label_selector="odd=1")
    assert [item["metadata"]["name"] for item in odd["items"]] == ["a1", "a3"]


async def test_metadata_only_leaves_the_rest_away(client):
    namespace = await fresh_namespace(client)
    await client.create(CONFIG_MAPS, _config_map(namespace, "a", x="1"))
    found = await client.get(CONFIG_MAPS, "a", namespace=namespace, metadata_only=True)
    assert found["kind"] == "PartialObjectMetadata"
    assert "data" not in found


async def test_a_watch_reports_what_happens(client):
    namespace = await fresh_namespace(client)
    seen = []
    async with client.watch(CONFIG_MAPS, namespace=namespace, timeout_seconds=60) as events:
        await client.create(CONFIG_MAPS, _config_map(namespace, "a"))
        await client.delete(CONFIG_MAPS, "a", namespace=namespace)
        async for event in events:
            if event.type != "BOOKMARK":
                seen.append((event.type, event.decode()["metadata"]["name"]))
            if len(seen) == 2:
                break
    assert seen == [("ADDED", "a"), ("DELETED", "a")]


async def test_a_renewed_token_file_is_read_again_after_a_401(tenant_plane, client, tmp_path):
    namespace = await fresh_namespace(client)
    account = fresh_name()
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": account, "namespace": namespace}})
    token = await request_account_token(client, namespace, account)
    file = tmp_path / "token"
    file.write_text("expired")
    endpoint = tenant_plane.endpoint_with_token(token_file=file)
    async with Client(endpoint) as bearer:
        with pytest.raises(errors.Unauthorized):
            await bearer.list(PODS)
        file.write_text(token + "\n")
        with pytest.raises(errors.Forbidden, match=account):
            await bearer.list(PODS)  # known now, and without rights


async def test_a_frozen_server_runs_into_the_deadline(tmp_path):
    plane = LocalControlPlane(tmp_path, name="frozen")
    await plane.start()
    try:
        async with Client(plane.endpoint) as client:
            await client.list(PODS)
            plane.pause_apiserver()
            with pytest.raises(errors.Timeout, match=r"no answer within 0\.3 s"):
                await client.list(PODS, deadline=0.3)
            plane.resume_apiserver()
            await eventually(lambda: client.list(PODS))
            plane.kill_apiserver()
            with pytest.raises(errors.NotSent, match=r"cannot connect to .*: Connection refused"):
                await client.list(PODS, deadline=0.5)
    finally:
        await plane.stop()


async def test_a_server_of_another_authority_is_not_trusted(tenant_plane, super_plane):
    endpoint = tenant_plane.endpoint
    wrong = type(endpoint)(server=endpoint.server, ca=super_plane.ca, name="impostor")
    async with Client(wrong) as client:
        with pytest.raises(errors.Untrusted, match=r"impostor: GET .*TLS failed: .*certificate"):
            await client.list(PODS)


async def test_the_name_in_the_certificate_counts(tenant_plane):
    endpoint = tenant_plane.endpoint
    for name, works in (("kubernetes.default.svc", True), ("other.example", False)):
        named = type(endpoint)(
            server=endpoint.server,
            ca=endpoint.ca,
            client_cert=endpoint.client_cert,
            client_key=endpoint.client_key,
            tls_server_name=name,
        )
        async with Client(named) as client:
            if works:
                assert (await client.version()).startswith("v1.")
            else:
                with pytest.raises(errors.Untrusted):
                    await client.version()


async def test_requests_share_a_limited_pool(client):
    namespace = await fresh_namespace(client)
    made = (
        client.create(CONFIG_MAPS, _config_map(namespace, f"a{number}")) for number in range(100)
    )
    await asyncio.gather(*made)
    found = await client.list(CONFIG_MAPS, namespace=namespace)
    assert len(found["items"]) == 100
