"""Writes of shared objects in a tenant: each once, and never an object of the tenant."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio import errors
from tenancy import wellknown
from tenancy.policies import SharedObjects
from tests.support.syncer.sessions import RecordingClient
from tests.support.vcmanager.factories import fake_means
from vcmanager.phases.content import shared_objects
from vcmanager.phases.content.shared_objects import SharedResult

RULES = (SharedObjects(kind="Secret", namespace="platform", match_labels={"share": "all"}),)
SECRET = {
    "metadata": {"namespace": "platform", "labels": {"share": "all"}},
    "data": {"a": "YQ=="},
    "type": "Opaque",
}


class Pair:
    """A super cluster with one source, and a tenant."""

    def __init__(self) -> None:
        self.below, self.above = RecordingClient(), RecordingClient()
        label = {"metadata": {"labels": {wellknown.SHARED_SOURCE: "enabled"}}}
        self.below.has("Namespace", "platform", label)
        self.below.has("Secret", "pull", SECRET)
        self.above.has("Namespace", "kube-public", {})
        self.above.space = "kube-public"
        self.means = fake_means(self.below)  # type: ignore[arg-type]

    async def reconcile(self, rules: tuple[SharedObjects, ...] = RULES) -> SharedResult:
        self.above.asked.clear()
        return await shared_objects.reconcile_shared_objects(self.means, self.above, "uid", rules)

    def verbs(self) -> list[str]:
        return [verb for verb, kind, _ in self.above.writes() if kind == "Secret"]

    def reads(self) -> int:
        return len([asked for asked in self.above.asked if asked[:2] == ("get", "Secret")])


async def test_an_object_is_created_once_and_then_costs_no_read():
    pair = Pair()
    assert await pair.reconcile() == SharedResult(1, ())
    assert pair.verbs() == ["create"]
    assert pair.above.object("Secret", "pull")["data"] == {"a": "YQ=="}
    await pair.reconcile()
    assert (pair.verbs(), pair.reads()) == ([], 0)


async def test_an_object_of_the_tenant_stays():
    pair = Pair()
    pair.above.has("Secret", "pull", {"data": {"mine": "MQ=="}, "type": "Opaque"})
    found = await pair.reconcile()
    assert "belongs to the tenant" in found.problems[0]
    assert pair.verbs() == []
    assert len(pair.above.writes("Event")) == 1


async def test_objects_without_a_rule_leave_and_others_stay():
    pair = Pair()
    await pair.reconcile()
    pair.above.has("Secret", "own", {"data": {}, "type": "Opaque"})
    await pair.reconcile(())
    assert pair.verbs() == ["delete"]
    assert pair.above.object("Secret", "own")


async def test_a_source_that_cannot_be_read_ends_the_reconcile():
    """Otherwise its objects would be deleted in the tenant."""
    pair = Pair()
    await pair.reconcile()
    pair.below.refusals["list Secret"] = errors.Unavailable("away")
    with pytest.raises(errors.Unavailable):
        await pair.reconcile()
    assert pair.verbs() == []


async def test_an_event_that_the_tenant_refuses_changes_nothing():
    pair = Pair()
    pair.above.has("Secret", "pull", {"data": {}, "type": "Opaque"})
    pair.above.refusals["create Event"] = errors.Forbidden("no")
    assert (await pair.reconcile()).problems


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({}, False),
        ({"tenant_namespaces": ("a",)}, True),
        ({"tenant_namespace_labels": {"a": "b"}}, True),
    ],
)
def test_new_namespaces_matter_only_if_a_rule_names_some(rule: Any, expected: bool):
    found = SharedObjects(kind="Secret", namespace="platform", **rule)
    assert shared_objects.needs_namespaces((found,)) is expected
