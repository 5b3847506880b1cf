"""Conditions on a SuperCluster: whether it is followed, and losses that are held."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from kubeio import errors
from kubeio.cache.store import Entry, parse_entry
from syncer.clusters import target_conditions
from syncer.safety.pod_loss_guard import MIN_MISSING_PODS, PodLossGuard
from tenancy import wellknown
from tests.support.syncer.pod_losses import IDENTITY, GuardedTarget
from tests.support.syncer.sessions import RecordingClient

# --- what is said ---------------------------------------------------------------------------------


def declared(*listed: dict[str, Any], word: str = "", losses: Any = None) -> Entry:
    annotations = {wellknown.CONFIRM_LOSSES: word} if word else {}
    metadata = {"name": "c2", "uid": "r1", "resourceVersion": "1", "annotations": annotations}
    status = {"conditions": [*listed]} | ({"losses": losses} if losses else {})
    return parse_entry(orjson.dumps({"metadata": metadata, "status": status}))


async def said(
    entry: Entry,
    found: PodLossGuard | None,
    api: RecordingClient,
    problem: str = "",
    rules: Mapping[str, str] | None = None,
) -> Any:
    """Have it said. Returns the conditions that were written by type, None when none were."""
    before = len(api.bodies)
    api.has("SuperCluster", entry.name, entry.decode())
    await target_conditions.write_target_conditions(
        api, entry, problem=problem, pod_loss_guard=found, rules=rules
    )  # type: ignore[arg-type]
    if len(api.bodies) == before:
        return None
    return {each["type"]: each for each in api.bodies[-1]["status"]["conditions"]}


async def test_losses_are_reported_once_and_so_is_their_end():
    field, api = GuardedTarget(), RecordingClient()
    first = await said(declared(), field.pod_loss_guard, api)
    assert {kind: each["status"] for kind, each in first.items()} == {"Followed": "True"}
    followed = first["Followed"]
    assert await said(declared(followed), field.pod_loss_guard, api) is None
    field.lose(*range(MIN_MISSING_PODS))
    found = (await said(declared(followed), field.pod_loss_guard, api))["LossesHeld"]
    assert (found["status"], found["reason"]) == ("True", "PodsMissing")
    lost = api.bodies[-1]["status"]["losses"]
    assert lost == {
        "state": field.pod_loss_guard.loss_state,
        "missing": MIN_MISSING_PODS,
        "total": MIN_MISSING_PODS,
    }
    both = declared(followed, found, losses=lost)
    assert await said(both, field.pod_loss_guard, api) is None
    assert (await said(declared(followed, found), field.pod_loss_guard, api))["LossesHeld"] == found
    field.there = 100
    assert await said(both, field.pod_loss_guard, api) is None, "no news"
    field.pod_loss_guard.confirm_losses(field.pod_loss_guard.loss_state)
    ended = (await said(both, field.pod_loss_guard, api))["LossesHeld"]
    assert (ended["status"], ended["reason"]) == ("False", "NoPodsMissing")
    assert "losses" not in api.bodies[-1]["status"]
    assert await said(declared(followed, ended), field.pod_loss_guard, api) is None
    assert (
        await said(declared(followed, ended, losses=lost), field.pod_loss_guard, api)
    ) is not None


async def test_sync_rules_that_are_not_served_are_reported_and_hold_nothing_else():
    api, name = RecordingClient(), "SyncRulesServed"
    assert name not in await said(declared(), None, api, rules={})
    first = await said(declared(), None, api, rules={"a": "", "b": "it is missing."})
    assert (first[name]["status"], first[name]["reason"]) == ("False", "RuleNotServed")
    assert first["Followed"]["status"] == "True"
    assert "SyncRule b: it is missing. Install" in first[name]["message"]
    assert "SyncRule a" not in first[name]["message"]
    both = declared(*first.values())
    assert await said(both, None, api) is None, "not known: the earlier condition stays"
    away = await said(both, None, api, problem="no answer")
    assert away[name] == first[name]
    served = await said(both, None, api, rules={"a": "", "b": ""})
    assert (served[name]["status"], served[name]["reason"]) == ("True", "Served")
    without = await said(both, None, api, rules={})
    assert list(without) == ["Followed"]
    long = await said(declared(), None, api, rules={"a": "x" * 2000})
    assert len(long[name]["message"]) <= 1024
    assert "Install the kind" in long[name]["message"]


async def test_other_pods_that_are_missing_are_news_though_their_number_is_the_same():
    field, api = GuardedTarget(), RecordingClient()
    field.pod_loss_guard.replace_missing("t", [f"u{number}" for number in range(MIN_MISSING_PODS)])
    first = await said(declared(), field.pod_loss_guard, api)
    lost = api.bodies[-1]["status"]["losses"]
    field.pod_loss_guard.replace_missing("t", [f"v{number}" for number in range(MIN_MISSING_PODS)])
    again = await said(declared(*first.values(), losses=lost), field.pod_loss_guard, api)
    assert again["LossesHeld"]["message"] == first["LossesHeld"]["message"]
    assert (
        api.bodies[-1]["status"]["losses"]["state"]
        == field.pod_loss_guard.loss_state
        != lost["state"]
    )


async def test_while_it_is_not_followed_that_is_reported_and_what_was_held_stays_reported():
    field, api = GuardedTarget(), RecordingClient()
    field.lose(*range(MIN_MISSING_PODS))
    before = (await said(declared(), field.pod_loss_guard, api))["LossesHeld"]
    lost = api.bodies[-1]["status"]["losses"]
    entry = declared(before, losses=lost)
    found = await said(entry, None, api, problem="its Secret is missing")
    assert found["Followed"]["status"] == "False"
    assert found["Followed"]["message"] == "its Secret is missing"
    assert found["LossesHeld"] == before, "or it would be given up"
    assert api.bodies[-1]["status"]["losses"] == lost, "and so would this"


@pytest.mark.parametrize(
    ("word", "is_taken_off", "is_held"),
    [
        ("", False, True), ("0123456789abcdef", True, True), ("state", True, False),
        ("0b7c4a52-4bd2-4a3e-9c6e-222222222222", False, True), (IDENTITY, True, False),
    ],
)  # fmt: skip
async def test_a_word_is_used_up_by_being_read(word: str, is_taken_off: bool, is_held: bool):
    field, api = GuardedTarget(), RecordingClient()
    field.lose(*range(MIN_MISSING_PODS))
    word = field.pod_loss_guard.loss_state if word == "state" else word
    await target_conditions.apply_confirmation(api, declared(word=word), field.pod_loss_guard)  # type: ignore[arg-type]
    assert field.pod_loss_guard.is_held is is_held
    assert bool(api.writes("SuperCluster")) is is_taken_off
    if is_taken_off:
        assert {"op": "test", "path": "/metadata/uid", "value": "r1"} in api.bodies[-1]


@pytest.mark.parametrize(
    ("identity", "reachable", "is_taken_off"),
    [("another", "False", False), ("another", "True", True), ("word", "True", False)],
)
async def test_a_word_for_a_cluster_that_is_no_longer_there_is_taken_off(
    identity: str, reachable: str, is_taken_off: bool
):
    word = "0b7c4a52-4bd2-4a3e-9c6e-222222222222"
    body = declared({"type": "Reachable", "status": reachable}, word=word).decode()
    body["status"]["identity"] = word if identity == "word" else identity
    api = RecordingClient()
    await target_conditions.apply_confirmation(
        api, parse_entry(orjson.dumps(body)), GuardedTarget().pod_loss_guard
    )  # type: ignore[arg-type]
    assert bool(api.writes("SuperCluster")) is is_taken_off


async def test_a_word_that_was_changed_meanwhile_stays():
    field, api = GuardedTarget(), RecordingClient()
    api.refusals["patch"] = errors.Invalid("the test failed")
    await target_conditions.apply_confirmation(
        api, declared(word="0123456789abcdef"), field.pod_loss_guard
    )  # type: ignore[arg-type]
