"""The table of kinds, the access derived from it, and the conditions."""

from __future__ import annotations

import orjson

from kubeio.cache.store import parse
from syncer.clusters.super_cluster import OWNED
from syncer.rbac import SUPER_ACCESS, TENANT_ACCESS
from syncer.rules import registry
from syncer.rules.registry import KINDS, Flow, Life
from syncer.tenants import conditions
from syncer.tenants.connection import WATCHED
from tenancy import wellknown


def may(rows, group: str, resource: str) -> set[str]:
    """Return the verbs that a table grants for a resource."""
    return {
        verb
        for row in rows
        if row.group == group and resource in row.resources
        for verb in row.verbs
    }


def test_every_kind_is_watched_on_both_sides():
    watched = {resource.kind for resource, _, _ in WATCHED}
    owned = {resource.kind for resource in OWNED}
    for row in KINDS:
        assert row.resource.kind in watched
        assert row.resource.kind in owned
        assert registry.BY_NAME[row.resource.kind] is row


def test_a_row_that_generic_code_runs_is_complete():
    for row in KINDS:
        if row.life is not Life.POD:
            assert row.build is not None
            assert row.change is not None


def test_what_is_watched_may_be_watched():
    for resource, _, _ in WATCHED:
        assert {"list", "watch"} <= may(TENANT_ACCESS, resource.group, resource.plural)
    for resource in OWNED:
        assert {"list", "watch", "create"} <= may(SUPER_ACCESS, resource.group, resource.plural)


def test_status_goes_up_and_never_down():
    for row in KINDS:
        has_status = bool(may(TENANT_ACCESS, row.resource.group, f"{row.resource.plural}/status"))
        assert has_status == (row.flow is Flow.DOWN_UP)
    assert may(SUPER_ACCESS, "", "services/status") == set()


def test_nothing_of_a_tenant_is_written_but_what_goes_up():
    assert "create" not in may(TENANT_ACCESS, "", "pods")
    assert may(TENANT_ACCESS, "", "secrets") == {"get", "list", "watch"}
    assert may(TENANT_ACCESS, "", "namespaces") == {"get", "list", "watch"}


def cluster(*told: dict[str, object]):
    """Return a cached VirtualCluster with conditions."""
    body = {
        "kind": "VirtualCluster",
        "metadata": {"name": "vc", "namespace": "default", "uid": "u", "generation": 2},
        "status": {"conditions": list(told)},
    }
    return parse(orjson.dumps(body))


class Listener:
    """Counts what is applied."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, object]] = []

    async def apply(self, _: object, body: dict[str, object], **__: object) -> None:
        self.bodies.append(body)


async def test_a_condition_is_said_once():
    wanted = [
        conditions.synced(reason=conditions.ENGAGED, message="All.", generation=2),
        conditions.deletes_held(message="", generation=2),
    ]
    listener = Listener()
    await conditions.say(listener, cluster(), wanted)
    assert len(listener.bodies) == 1
    await conditions.say(listener, cluster(*wanted), wanted)
    assert len(listener.bodies) == 1
    held = [wanted[0], conditions.deletes_held(message="Why.", generation=2)]
    old = {**wanted[0], "lastTransitionTime": "2020-01-01T00:00:00Z"}
    await conditions.say(listener, cluster(old, wanted[1]), held)
    applied = listener.bodies[-1]["status"]["conditions"]
    assert applied[0]["lastTransitionTime"] == "2020-01-01T00:00:00Z"
    assert (applied[1]["status"], applied[1]["message"]) == ("True", "Why.")


def test_only_engaged_is_synced():
    for reason in (conditions.DISENGAGED, conditions.UNREACHABLE):
        assert conditions.synced(reason=reason, message="m", generation=1)["status"] == "False"


def test_a_held_condition_is_kept_by_other_news():
    held = conditions.deletes_held(message="Why.", generation=2)
    assert conditions.held_before(cluster(held)) == [held]
    assert conditions.held_before(cluster()) == []
    assert held["type"] == wellknown.DELETES_HELD
