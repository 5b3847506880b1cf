"""Statuses on their way up: every message in them is clean, and nothing else is touched."""

from __future__ import annotations

import pytest

from kubeio import errors
from syncer.controllers import rejection_events
from syncer.handlers.resync import has_work
from syncer.rules import registry
from syncer.tenants import sanitizer
from tenancy import ownership, wellknown
from tenancy.ownership import Tenant
from tests.support.kubeio.described_requests import REQUEST
from tests.support.syncer.sessions import SessionWorld, put

OTHER = Tenant(name="shop", namespace="default", uid="other-uid", root="default-0123ab-shop")
THEIRS = f"{OTHER.root}-web"


@pytest.fixture
def world() -> SessionWorld:
    """Return a session beside another tenant and a node that is not shown."""
    found = SessionWorld()
    found.ready()
    metadata = {
        "name": THEIRS,
        "uid": "n",
        "resourceVersion": "1",
        "labels": ownership.build_owner_labels(OTHER, "web"),
        "annotations": ownership.build_owner_annotations(OTHER, "web", "u"),
    }
    put(found.super_cluster.stores["Namespace"], {"metadata": metadata})
    put(found.super_cluster.nodes, {"metadata": {"name": "node-7", "uid": "7"}})
    return found


def test_every_message_is_clean_and_nothing_else_is_touched(world: SessionWorld):
    waiting = {"reason": "CreateContainerError", "message": f"the name of {THEIRS}/p on node-7"}
    body = {
        "metadata": {"name": THEIRS},
        "status": {
            "message": f"see {THEIRS}",
            "hostIP": "node-7",
            "conditions": [{"type": "Ready", "message": f"{THEIRS} has it"}],
            "containerStatuses": [{"image": THEIRS, "state": {"waiting": waiting}}],
        },
    }
    clean = world.session.sanitizer.sanitize_status(body)
    assert clean["metadata"] == {"name": THEIRS}
    status = clean["status"]
    assert status["message"] == "see another-namespace"
    assert status["hostIP"] == "node-7"
    assert status["conditions"][0]["message"] == "another-namespace has it"
    told = status["containerStatuses"][0]["state"]["waiting"]["message"]
    assert told == "the name of another-namespace/p on another-node"
    assert status["containerStatuses"][0]["image"] == THEIRS
    named = world.session.sanitizer.sanitize_status(body, node="node-7")["status"][
        "containerStatuses"
    ][0]
    assert named["state"]["waiting"]["message"].endswith("on node-7")
    assert body["status"]["message"] == f"see {THEIRS}"


def test_every_text_of_a_ruled_status_is_clean(world: SessionWorld):
    """A field of a SyncRule may have any meaning, such as an address or a map of namespaces."""
    status = {
        "url": f"http://x.{THEIRS}.svc",
        "nodes": ["node-7", 7],
        "spaces": {THEIRS: True, "node-7": None},
        "terminated": f"see {THEIRS}",
        "message": "on node-7",
        "certificate": "a" * 9000,
    }
    clean = world.session.sanitizer.sanitize_ruled_status({"metadata": {}, "status": status})
    assert clean["status"] == {
        "url": "http://x.another-namespace.svc",
        "nodes": ["node-7", 7],
        "spaces": {"another-namespace": True, "node-7": None},
        "terminated": "see another-namespace",
        "message": "on another-node",
        "certificate": "a" * 9000,
    }


@pytest.mark.parametrize(
    ("uid", "told"), [("7", "node-7"), ("other", "another-node"), ("", "another-node")]
)
def test_a_node_is_shown_if_its_uid_is(world: SessionWorld, uid: str, told: str):
    """A tenant may call a node of its own like one that it is not shown."""
    metadata = {"annotations": {wellknown.UID: uid}} if uid else {}
    world.tenant_has("Node", "node-7", namespace="", metadata=metadata)
    assert world.session.sanitizer.sanitize_text("it is on node-7") == f"it is on {told}"


def test_the_work_for_a_text_does_not_grow_with_the_tenants(world: SessionWorld, monkeypatch):
    """REL-76: a tenant may name an image as it likes, and kubelets repeat the name."""
    clusters, lookups = world.super_cluster.virtual_clusters, []
    for number in range(1000):
        metadata = {"name": f"t{number}", "namespace": "default", "uid": f"u{number}"}
        put(clusters, {"metadata": metadata | {"resourceVersion": "1"}})
    find = clusters.get
    monkeypatch.setattr(clusters, "get", lambda *key: lookups.append(key) or find(*key))
    for store in (clusters, world.super_cluster.agent_pods):
        monkeypatch.setattr(store, "list", None)
    text = "a-000000-b default-0123ab-t7 " * 2000
    clean = world.session.sanitizer.sanitize_text(text)
    assert clean.startswith("a-000000-b another-namespace a-000000-b another-namespace ")
    assert len(clean) < 2 * sanitizer.MAX_TEXT
    assert len(lookups) < sanitizer.MAX_TEXT / 5
    lookups.clear()
    assert world.session.sanitizer.sanitize_text("-".join(["0" * 6] * 500))
    assert lookups == [], "no namespace has so long a name"


@pytest.mark.parametrize(
    ("word", "is_foreign"),
    [
        ("default-0123ab-shop", True),
        ("a-b-0123ab-c-d", True),
        ("a-0123ab-b-0123ab-c", True),
        ("default-b41df0-vc", False),
        ("default-0123ab-shops", False),
        ("xdefault-0123ab-shop", False),
        ("-0123ab-", False),
    ],
)
def test_a_root_namespace_is_found_by_its_parts(world: SessionWorld, word: str, is_foreign: bool):
    places = (("default", "shop"), ("a-b", "c-d"), ("a-0123ab-b", "c"), ("default", "vc"))
    for namespace, name in places:
        uid = "vc-uid" if name == "vc" else f"uid-{name}"
        metadata = {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": "1"}
        put(world.super_cluster.virtual_clusters, {"metadata": metadata})
    assert world.session.sanitizer._is_other_root(word) is is_foreign


@pytest.mark.parametrize("body", [{}, {"status": None}, {"status": {"message": None}}])
def test_what_reports_nothing_stays_as_it_is(world: SessionWorld, body):
    assert world.session.sanitizer.sanitize_status(body) == body


async def test_a_refusal_names_no_other_tenant(world: SessionWorld):
    entry = world.tenant_has("Service", "web")
    problem = errors.Invalid(f"port is in use by {THEIRS}/web", request=REQUEST)
    await rejection_events.report_failed(
        registry.KINDS_BY_NAME["Service"], entry, problem, world.session
    )
    assert world.above.bodies[-1]["message"] == "port is in use by another-namespace/web"


def test_the_resync_sees_no_difference_in_what_was_cleaned(world: SessionWorld):
    message = f"{THEIRS} has it"
    key = world.key("Service", "web", "s")
    spec = {"clusterIP": "None", "type": "ClusterIP"}
    condition = {"type": "Shared", "status": "False", "reason": "R", "message": message}
    shown = {**condition, "message": "another-namespace has it"}
    world.tenant_has("Service", "s", spec=spec, status={"conditions": [shown], "loadBalancer": {}})
    twin = registry.KINDS_BY_NAME["Service"].build(
        world.session.stores["Service"].get("web", "s").decode(), world.session.view
    )
    world.super_has(
        "Service",
        "s",
        spec=spec,
        status={"conditions": [condition], "loadBalancer": {}},
        metadata={"annotations": twin["metadata"]["annotations"]},
    )
    assert not has_work(key, world.session)
