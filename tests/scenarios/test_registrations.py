"""Objects of another registration are foreign to the syncer everywhere."""

from __future__ import annotations

import ast
import ipaddress
from pathlib import Path
from typing import Any

import orjson
import pytest

import syncer
from kubeio import errors
from kubeio.cache.reflector import ReflectorOptions
from kubeio.cache.store import parse_entry
from kubeio.controller.worker import NotReadyYet
from syncer.clusters.super_cluster import SuperCluster
from syncer.controllers import adoption, cached_objects, sync_down
from syncer.model.decide import DeleteGrounds
from syncer.rules import registry
from syncer.safety.proven_deletes import DeleteTarget
from syncer.tenants.session import Session
from tenancy import ownership, wellknown
from tests.support.syncer.sessions import RecordingClient, SessionWorld, put, use_tenant_client

READERS = {"owner_of", "super_side", "is_owned"}
AT_HOME = {
    "handlers/home_events.py",
    "tenants/connection.py",
    "rules/storage/claims.py",
    "rules/network/ingress_hosts.py",
    "rules/storage/volumes.py",
}
"""Modules that look at the home cluster alone."""


@pytest.fixture
def far() -> Session:
    """Objects of a tenant in a target."""
    world, api = SessionWorld(), RecordingClient()
    below = SuperCluster(api, name="c2", registration="r1")  # type: ignore[arg-type]
    made = Session(world.link, below, tenant_slice=ipaddress.ip_network("10.96.8.0/22"))
    world.link.add_session(made)
    made.work.is_ready = True
    use_tenant_client(made, world.above)
    return made


def config_map(session: Session, registration: str, uid: str = "c-uid") -> dict[str, Any]:
    """Return a super object that was made for a registration."""
    tenant = ownership.Tenant(
        name=session.tenant.name,
        namespace=session.tenant.namespace,
        uid=session.tenant.uid,
        root=session.tenant.root,
        super_cluster_uid=registration,
    )
    metadata = {
        "name": "c",
        "namespace": session.view.get_super_namespace("web"),
        "uid": "below",
        "resourceVersion": "60",
        "labels": ownership.build_owner_labels(tenant, "web"),
        "annotations": ownership.build_owner_annotations(tenant, "web", uid),
    }
    return {"kind": "ConfigMap", "metadata": metadata}


def test_who_looks_at_an_owner_reports_for_which_registration():
    root = Path(syncer.__file__).parent
    found = []
    for path in root.rglob("*.py"):
        name = str(path.relative_to(root))
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            owner = node.func.value
            is_reader = isinstance(owner, ast.Name) and owner.id in ("ownership", "decide")
            if is_reader and node.func.attr in READERS and name not in AT_HOME:
                asked = {keyword.arg for keyword in node.keywords}
                if len(node.args) < 2 or (node.func.attr == "super_side" and not asked):
                    found.append(f"{name}:{node.lineno}")
    assert found == []


def test_a_target_is_watched_for_what_was_made_for_its_registration(far: Session):
    own = [r for r in far.super_cluster.reflectors if r.resource.kind in far.super_cluster.stores]
    assert own
    for reflector in own:
        selected = reflector._options.label_selector.split(",")  # type: ignore[union-attr]
        assert f"{wellknown.SUPER_CLUSTER}=r1" in selected
    for reflector in SessionWorld().super_cluster.reflectors:
        options = getattr(reflector, "_options", ReflectorOptions())
        assert wellknown.SUPER_CLUSTER not in options.label_selector


@pytest.mark.parametrize(("registration", "is_own"), [("r1", True), ("r2", False), ("", False)])
def test_a_twin_is_one_of_its_registration(far: Session, registration: str, is_own: bool):
    entry = parse_entry(orjson.dumps(config_map(far, registration)))
    assert far.twins.is_twin(entry, "c-uid") is is_own
    side = far.twins.build_state(entry)
    assert side is not None
    assert side.vc_uid == (far.tenant.uid if is_own else "")


async def test_what_is_made_there_reports_for_whom(far: Session):
    put(far.stores["Namespace"], {"metadata": {"name": "web", "uid": "w", "resourceVersion": "1"}})
    kind = registry.KINDS_BY_NAME["Namespace"]
    await sync_down.reconcile(kind, far.build_key("Namespace", "", "web"), far)
    (body,) = far.super_client.bodies  # type: ignore[attr-defined]
    assert body["metadata"]["labels"][wellknown.SUPER_CLUSTER] == "r1"
    assert ownership.read_owner(body["metadata"], "r1") == (far.tenant.uid, "w", "web")


@pytest.mark.parametrize("registration", ["", "r2"])
async def test_a_name_that_another_registration_has_is_taken(far: Session, registration: str):
    api: Any = far.super_client
    twin = config_map(far, "r1")
    api.has("ConfigMap", "c", config_map(far, registration))
    tenant_x = parse_entry(
        orjson.dumps({"metadata": {"name": "c", "namespace": "web", "uid": "u"}})
    )
    told: list[str] = []

    async def tell(*_: Any, reason: str, **__: Any) -> None:
        told.append(reason)

    far.event_recorder.record = tell  # type: ignore[method-assign,assignment]
    await sync_down.resolve_name_conflict(registry.KINDS_BY_NAME["ConfigMap"], tenant_x, twin, far)
    assert told == [cached_objects.NAME_TAKEN]
    assert api.writes() == []


async def test_what_lost_its_labels_gets_them_back_only_when_it_is_of_this_registration(
    far: Session,
):
    api: Any = far.super_client
    kind, key = registry.KINDS_BY_NAME["ConfigMap"], far.build_key("ConfigMap", "web", "c")
    for registration, writes in (("r2", 0), ("", 0), ("r1", 1)):
        body = config_map(far, registration)
        body["metadata"]["labels"] = {}
        api.has("ConfigMap", "c", body)
        far.lost_twins.record_vanished_twin(key, (body["metadata"]["namespace"], "c"))
        if writes:
            with pytest.raises(NotReadyYet):
                await adoption.find_vanished_twin(kind, key, far)
            assert api.bodies[-1]["metadata"]["labels"][wellknown.SUPER_CLUSTER] == "r1"
        else:
            await adoption.find_vanished_twin(kind, key, far)
        assert len(api.writes()) == writes


async def test_a_delete_that_rests_on_absence_is_proved_at_a_target_as_well(far: Session):
    """Its tenant object lives: were the owner not known, no one would ask for that."""
    body = config_map(far, "r1")
    entry = put(far.twins.get_store("ConfigMap"), body)
    api: Any = far.super_client
    api.has("ConfigMap", "c", body)
    above: Any = far.tenant_client
    above.has("ConfigMap", "c", {"metadata": {"name": "c", "uid": "c-uid"}})
    target = DeleteTarget(
        key=far.build_key("ConfigMap", "web", "c"),
        resource=registry.KINDS_BY_NAME["ConfigMap"].resource,
        entry=entry,
        grounds=DeleteGrounds.ABSENT,
    )
    with pytest.raises((NotReadyYet, errors.KubeError)):
        await far.proven_deletes.delete_proven(target)
    assert api.writes() == []
