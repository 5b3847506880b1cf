"""Status that is synced back: of every kind the owned part follows the twin, the rest stays."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncer.model.diff import apply_merge_patch
from syncer.rules import registry, status_ownership
from syncer.rules.nodes import virtual_nodes
from syncer.rules.pods import pod_status
from syncer.rules.registry import SyncDirection
from syncer.rules.status_ownership import POD_OWNERSHIP, STATUS_OWNERS
from syncer.rules.storage import volumes
from tests.support.syncer.sessions import TENANT

Body = dict[str, Any]
BELOW = f"{TENANT.root}-web"
OF_OTHERS = ("Checked", "example.com/Checked", "example.org/Audited")
"""Types that only controllers of the tenant write."""
OF_THE_SUPER = ("vendor.io/Probed", "vendor.io/Attached")
"""Types that no table lists, and only controllers of the super cluster write."""
SAID = st.sampled_from(("True", "False"))


class Writer(NamedTuple):
    """How one kind's status is synced back."""

    patch: Callable[[Body, Body, frozenset[str]], Body | None]
    """Return the merge patch of a tenant object, from its twin and the types synced before."""
    fields: dict[str, list[Any]]
    """Fields that the super cluster owns, each with some values."""
    has_conditions: bool = True


def _row(kind: str) -> Callable[[Body, Body, frozenset[str]], Body | None]:
    def patch(own: Body, live: Body, types: frozenset[str]) -> Body | None:
        build = registry.KINDS_BY_NAME[kind].build_status_up
        assert build is not None
        return build(own, live, types)

    return patch


def _pod(own: Body, live: Body, types: frozenset[str]) -> Body | None:
    shown = pod_status.build_shown_status(own, live, [])
    return pod_status.build_patch_to(own, shown, types)


def _volume(own: Body, live: Body, _: frozenset[str]) -> Body | None:
    return volumes.build_phase_patch(own, volumes.get_phase(live))


BALANCERS = [{"ingress": [{"ip": "192.0.2.1"}]}, {"ingress": [{"hostname": "a.example"}]}]
WRITERS: dict[str, Writer] = {
    "Pod": Writer(
        _pod, {"phase": ["Pending", "Running"], "podIP": ["10.0.0.1"], "reason": ["Evicted"]}
    ),
    "Service": Writer(_row("Service"), {"loadBalancer": BALANCERS}),
    "Ingress": Writer(_row("Ingress"), {"loadBalancer": BALANCERS}, has_conditions=False),
    "PersistentVolumeClaim": Writer(
        _row("PersistentVolumeClaim"),
        {"phase": ["Pending", "Bound"], "capacity": [{"storage": "1Gi"}, {"storage": "2Gi"}]},
    ),
    "PersistentVolume": Writer(_volume, {"phase": ["Bound", "Released"]}, has_conditions=False),
}


def condition(kind: str, said: str) -> Body:
    return {"type": kind, "status": said, "reason": "Because", "lastProbeTime": None}


def sides(kind: str) -> tuple[Body, Body]:
    """Return an object of a kind and its twin, without status."""
    own = {"metadata": {"name": "x", "namespace": "web", "uid": "up"}, "spec": {}}
    live = {"metadata": {"name": "x", "namespace": BELOW, "uid": "below"}, "spec": {}}
    if kind == "Pod":
        own["spec"] = live["spec"] = {"containers": [{"name": "main"}]}
    return own, live


def statuses(kind: str) -> st.SearchStrategy[Body]:
    """Return what the super cluster may say of an object."""
    writer, types = WRITERS[kind], (*STATUS_OWNERS[kind].condition_types, *OF_THE_SUPER)
    fields = st.fixed_dictionaries(
        {}, optional={field: st.sampled_from(values) for field, values in writer.fields.items()}
    )
    if not writer.has_conditions:
        return fields
    said = st.dictionaries(st.sampled_from(types), SAID, max_size=4)
    return st.builds(
        lambda found, items: {**found, "conditions": [condition(*item) for item in items.items()]},
        fields,
        said,
    )


def steps(kind: str) -> st.SearchStrategy[list[tuple[str, Any]]]:
    """Return what happens to an object, step by step."""
    types = STATUS_OWNERS[kind].condition_types
    forged = [st.tuples(st.just("forged"), st.sampled_from(sorted(types)), SAID)] if types else []
    return st.lists(
        st.one_of(
            st.tuples(st.just("super"), statuses(kind)),
            st.tuples(st.just("foreign"), st.sampled_from(OF_OTHERS), SAID),
            st.tuples(st.just("field"), st.integers(0, 3)),
            st.tuples(st.just("owned"), st.sampled_from(sorted(WRITERS[kind].fields))),
            st.tuples(st.just("reversed"), st.none()),
            *forged,
        ),
        max_size=12,
    )  # type: ignore[arg-type]


def by_type(status: Body) -> dict[str, Body]:
    """Return conditions as API servers compare them, without unset times."""
    return {
        item["type"]: {key: value for key, value in item.items() if value is not None}
        for item in status.get("conditions") or ()
    }


def upsert(status: Body, kind: str, said: str) -> None:
    kept = [item for item in status.get("conditions") or () if item["type"] != kind]
    status["conditions"] = [*kept, condition(kind, said)]


def sync(writer: Writer, kind: str, own: Body, live: Body, types: frozenset[str]) -> frozenset[str]:
    """Write a status back as the syncer does. Returns the types that it records."""
    patch = writer.patch(own, live, types)
    if patch is not None:
        own["status"] = apply_merge_patch(own.get("status") or {}, patch["status"])
    assert writer.patch(own, live, types) is None
    said = (live.get("status") or {}).get("conditions") or ()
    return status_ownership.list_synced_types(STATUS_OWNERS[kind], said)


def empty(value: Any) -> bool:
    return value in (None, {}, [], "")


@pytest.mark.parametrize("kind", sorted(WRITERS))
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_what_others_wrote_stays_and_what_is_owned_follows(kind: str, data: st.DataObject):
    writer = WRITERS[kind]
    own, live = sides(kind)
    types: frozenset[str] = frozenset()
    foreign: dict[str, str] = {}
    field = None
    for what, *rest in data.draw(steps(kind)):
        status = own.setdefault("status", {})
        if what == "super":
            live["status"] = copy.deepcopy(rest[0])
        elif what == "foreign" and writer.has_conditions:
            foreign[rest[0]] = rest[1]
            upsert(status, *rest)
        elif what == "forged":
            upsert(status, *rest)
        elif what == "field":
            status["exampleField"] = field = {"value": rest[0]}
        elif what == "owned":
            status[rest[0]] = {"ingress": []} if rest[0] == "loadBalancer" else "forged"
            if rest[0] == "capacity":
                status[rest[0]] = {"storage": "9Ti"}
        elif what == "reversed" and status.get("conditions"):
            before = writer.patch(own, live, types)
            status["conditions"].reverse()
            if before is None:
                assert writer.patch(own, live, types) is None, "an order is no difference"
        types = sync(writer, kind, own, live, types)
        shown, there = own.get("status") or {}, live.get("status") or {}
        assert shown.get("exampleField") == field
        expected = {name: there.get(name) for name in writer.fields}
        for name, value in expected.items():
            if kind == "PersistentVolume" and empty(value):
                continue  # a phase is never taken back
            assert shown.get(name) == value or (empty(shown.get(name)) and empty(value))
        if writer.has_conditions:
            said = {name: item["status"] for name, item in by_type(shown).items()}
            owned = {name: item["status"] for name, item in by_type(there).items()}
            assert said == {**foreign, **owned}


def test_every_kind_that_is_synced_back_has_a_row():
    up = {kind.resource.kind for kind in registry.KINDS if kind.direction is SyncDirection.DOWN_UP}
    assert set(STATUS_OWNERS) == {*up, "PersistentVolume", "Node"}
    assert set(WRITERS) == set(STATUS_OWNERS) - {"Node"}  # its status is applied by the server


@pytest.mark.parametrize("kind", [k for k in registry.KINDS if k.direction is SyncDirection.DOWN])
def test_the_status_of_every_other_kind_is_never_written(kind: registry.SyncedKind):
    assert kind.build_status_up is None
    assert kind.build_spec_up is None


def test_an_eviction_stays_though_the_super_cluster_forgets_it():
    evicted = condition("DisruptionTarget", "True")
    types = frozenset({"DisruptionTarget"})
    assert status_ownership.merge_conditions(POD_OWNERSHIP, [evicted], [], types) == [evicted]


@pytest.mark.parametrize("odd", [None, "x", [1, None, {"status": "True"}, {"type": 3}]])
def test_conditions_that_no_server_stores_are_left_out(odd: Any):
    shown = [condition("Ready", "True")]
    assert status_ownership.merge_conditions(POD_OWNERSHIP, odd, shown) == shown


# --- nodes: server-side apply keeps what others own -----------------------------------------------

SUPER_NODE = {
    "metadata": {"name": "n", "uid": "n-uid"},
    "status": {
        "addresses": [{"type": "InternalIP", "address": "192.0.2.9"}],
        "capacity": {"cpu": "4"},
        "allocatable": {"cpu": "4"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}


@pytest.mark.parametrize(
    "added",
    [
        {"addresses": [{"type": "Hostname", "address": "mine"}]},
        {"capacity": {"example.com/seats": "3"}},
        {"conditions": [{"type": "example.com/Checked", "status": "True"}]},
        {"volumesInUse": ["kubernetes.io/csi/x"]},
    ],
    ids=lambda added: next(iter(added)),
)
def test_additions_to_a_nodes_status_cause_no_write(added: Body):
    wanted = virtual_nodes.build_status(SUPER_NODE, None, now=datetime.now(UTC))
    node = virtual_nodes.build_node(SUPER_NODE)
    node["status"] = copy.deepcopy(wanted)
    digest = node["metadata"]["annotations"][virtual_nodes.wellknown.LAST_WRITTEN_DIGEST]
    assert virtual_nodes.is_status_current(node, wanted, digest)
    for field, value in added.items():
        there = node["status"].get(field)
        both = {**(there or {}), **value} if isinstance(value, dict) else [*(there or ()), *value]
        node["status"][field] = both
    assert virtual_nodes.is_status_current(node, wanted, digest)
    node["status"]["addresses"] = [
        each for each in node["status"]["addresses"] if each["type"] != "InternalIP"
    ]
    assert not virtual_nodes.is_status_current(node, wanted, digest)
