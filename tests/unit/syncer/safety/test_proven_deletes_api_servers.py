"""Proven deletes between two API servers in memory: what is deleted, and what is asked first."""

from __future__ import annotations

import orjson
import pytest

from kubeio import errors
from kubeio.cache.store import Entry, parse_entry
from kubeio.controller.worker import NotReadyYet
from syncer.model.decide import DeleteGrounds
from syncer.model.keys import HOME, Key
from syncer.safety.expectations import ClusterSide, EventOrigin, Expectations
from syncer.safety.proven_deletes import DeleteTarget, ProvenDeletes
from tenancy import ownership
from tenancy.resources import CONFIG_MAPS, NAMESPACES, PODS
from tests.support.memapi import verbs
from tests.support.syncer.two_api_servers import TENANT, Pair
from tests.support.syncer.writers import proven_deletes

BELOW = f"{TENANT.root}-web"


# --- deletions ------------------------------------------------------------------------------------

KEY = Key(TENANT.uid, HOME, "Pod", "web", "p")


async def deletions(pair: Pair) -> tuple[ProvenDeletes, Expectations, Entry]:
    """Return deletions of an engaged tenant, and the twin of a pod that its node runs."""
    held = pair.store_guard()
    await held.initialize(twin_uid="", stamps=())
    pair.make(pair.below, NAMESPACES, "", {"metadata": {"name": BELOW}})
    pod = {
        "metadata": {
            "name": "p",
            "annotations": ownership.build_owner_annotations(TENANT, "web", "p-uid"),
        },
        "spec": {"nodeName": "node-1", "containers": [{"name": "c", "image": "i"}]},
    }
    made = pair.make(pair.below, PODS, BELOW, pod)
    expectations = Expectations()
    found = proven_deletes(
        store_guard=held,
        tenant_client=pair.tenant_client,
        super_client=pair.super_client,
        expectations=expectations,
    )
    for wired in pair.wired.values():
        wired.asked.clear()
    return found, expectations, parse_entry(orjson.dumps({**made, "kind": "Pod"}))


def target(entry: Entry, grounds: DeleteGrounds) -> DeleteTarget:
    return DeleteTarget(key=KEY, resource=PODS, entry=entry, grounds=grounds)


@pytest.mark.parametrize(
    ("grounds", "is_proved"),
    [(DeleteGrounds.MARKED, False), (DeleteGrounds.ABSENT, True), (DeleteGrounds.UNWANTED, True)],
)
async def test_a_delete_reports_which_object_it_means_and_how_it_goes(pair, grounds, is_proved):
    found, _, entry = await deletions(pair)
    await found.delete_proven(target(entry, grounds), grace_seconds=7)
    (request,) = (each for each in pair.wired["below"].asked if each.method == "DELETE")
    assert request.target == f"/api/v1/namespaces/{BELOW}/pods/p"
    options = orjson.loads(request.body)
    proof = {"resourceVersion": entry.resource_version} if is_proved else {}
    assert options["preconditions"] == {"uid": entry.uid, **proof}
    assert options["propagationPolicy"] == "Background"
    assert options["gracePeriodSeconds"] == 7
    live = pair.below.of(PODS).get(BELOW, "p").decode()["metadata"]
    assert live["deletionGracePeriodSeconds"] == 7


async def test_proofs_are_read_live_and_without_the_bodies(pair):
    found, _, entry = await deletions(pair)
    await found.delete_proven(target(entry, DeleteGrounds.ABSENT))
    reads = [
        (side, each.target, "PartialObjectMetadata" in dict(each.headers)["Accept"])
        for side, wired in pair.wired.items()
        for each in wired.asked
        if each.method == "GET" and "/pods/" in each.target
    ]
    assert reads == [
        ("above", "/api/v1/namespaces/web/pods/p", True),
        ("below", f"/api/v1/namespaces/{BELOW}/pods/p", True),
    ]


async def test_the_echo_of_a_delete_is_expected_at_the_version_that_it_made(pair):
    found, expectations, entry = await deletions(pair)
    for number in range(3):  # the version that it makes is not the next one
        pair.make(pair.below, CONFIG_MAPS, BELOW, {"metadata": {"name": f"other-{number}"}})
    await found.delete_proven(target(entry, DeleteGrounds.MARKED), grace_seconds=30)
    live = pair.below.of(PODS).get(BELOW, "p").decode()
    assert expectations.is_behind(ClusterSide.SUPER, KEY, entry)
    version = int(live["metadata"]["resourceVersion"])
    assert version > int(entry.resource_version) + 1
    earlier = {**live["metadata"], "resourceVersion": str(version - 1)}
    assert expectations.is_behind(
        ClusterSide.SUPER, KEY, parse_entry(orjson.dumps({"metadata": earlier}))
    )
    ending = parse_entry(orjson.dumps({**live, "kind": "Pod"}))
    assert not expectations.is_behind(ClusterSide.SUPER, KEY, ending)


async def test_the_echo_of_a_delete_reports_nothing_new(pair):
    found, expectations, entry = await deletions(pair)
    await found.delete_proven(target(entry, DeleteGrounds.MARKED), grace_seconds=30)
    live = pair.below.of(PODS).get(BELOW, "p").decode()
    ending = parse_entry(orjson.dumps({**live, "kind": "Pod"}))
    assert expectations.observe_event(ClusterSide.SUPER, KEY, ending) is EventOrigin.OWN_UNCHANGED


async def test_a_delete_of_what_ends_at_once_is_answered_by_its_absence(pair):
    found, expectations, entry = await deletions(pair)
    await found.delete_proven(target(entry, DeleteGrounds.MARKED), grace_seconds=0)
    assert pair.below.of(PODS).get(BELOW, "p") is None
    assert expectations.is_behind(ClusterSide.SUPER, KEY, entry)
    assert not expectations.is_behind(ClusterSide.SUPER, KEY, None)


async def test_another_pod_of_the_name_is_not_deleted_in_its_place(pair):
    found, expectations, entry = await deletions(pair)
    pods = pair.below.of(PODS)
    verbs.delete(pods, pods.get(BELOW, "p"), {"gracePeriodSeconds": 0})
    pair.make(
        pair.below,
        PODS,
        BELOW,
        {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    )
    with pytest.raises(errors.Conflict):
        await found.delete_proven(target(entry, DeleteGrounds.MARKED))
    with pytest.raises(NotReadyYet) as waited:
        await found.delete_proven(target(entry, DeleteGrounds.ABSENT))
    assert waited.value.after == 1.0
    assert "another one now" in str(waited.value)
    assert pods.get(BELOW, "p") is not None
    assert not expectations.is_behind(ClusterSide.SUPER, KEY, entry)


async def test_a_forced_end_is_that_of_one_object_until_its_twin_is_gone(pair):
    found, _, _ = await deletions(pair)
    other = KEY._replace(name="other")
    assert not found.was_force_deleted(KEY, "p-uid")
    found.record_tenant_end(KEY, "p-uid", forced=True)
    found.record_tenant_end(other, "o-uid")
    assert found.was_force_deleted(KEY, "p-uid")
    assert not found.was_force_deleted(KEY, "another-uid")
    assert not found.was_force_deleted(other, "o-uid")
    found.forget(KEY)
    assert not found.was_force_deleted(KEY, "p-uid")
    found.forget(KEY)
