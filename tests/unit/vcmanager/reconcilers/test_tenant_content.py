"""When the content of a tenant is reconciled, and how failures become conditions."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio import errors
from kubeio.controller.worker import Done, RequeueAfter
from tenancy import wellknown
from tests.support.vcmanager.factories import NOW, UID, RecordingClient, fake_means
from vcmanager.phases.content import addons, shared_objects
from vcmanager.phases.content.addons import AddonResult
from vcmanager.phases.content.shared_objects import SharedResult
from vcmanager.reconcilers import tenant_content
from vcmanager.runtime import keys

KEY = keys.build_content_key("default", "vc-1")
SHARING: dict[str, Any] = {
    "metadata": {"name": "p"},
    "spec": {"sharedObjects": [{"kind": "Secret", "namespace": "platform"}]},
}


class KnownTenants:
    """Stands where the clients of tenants are."""

    def __init__(self, client: Any) -> None:
        self.client, self.watched, self.ended = client, [], 0

    def find(self, uid: str) -> Any:
        assert uid == UID
        return self.client

    async def watch_content(self, _uid: str, *, needs_namespaces: bool, on_changed: Any) -> None:
        assert callable(on_changed)
        self.watched.append(needs_namespaces)

    async def end_content_watch(self, _uid: str) -> None:
        self.ended += 1


def cluster(*, deleting: bool = False, conditions: Any = (), **spec: Any) -> dict[str, Any]:
    metadata = {"name": "vc-1", "namespace": "default", "uid": UID, "generation": 3}
    if deleting:
        metadata["deletionTimestamp"] = NOW.isoformat()
    status = {"conditions": [*conditions]} if conditions else {}
    return {
        "metadata": metadata,
        "spec": {"clusterVersionName": "v", **spec},
        "status": status,
    }


class Outcome:
    """Stands where the phases are, and remembers what they were asked for."""

    def __init__(self, monkeypatch: Any, *, shared: Any = None, applied: Any = None) -> None:
        self.rules: list[Any] = []
        self.addons = 0

        async def reconcile_shared(_means: Any, _client: Any, _uid: str, rules: Any) -> Any:
            self.rules.append(rules)
            if isinstance(shared, Exception):
                raise shared
            return shared or SharedResult(1, ())

        async def apply(*_: Any) -> Any:
            self.addons += 1
            if isinstance(applied, Exception):
                raise applied
            return applied or AddonResult(({"name": "a", "digest": "d"},), ())

        monkeypatch.setattr(shared_objects, "reconcile_shared_objects", reconcile_shared)
        monkeypatch.setattr(addons, "apply_addons", apply)


async def run(body: dict[str, Any], client: Any = "client", **objects: Any) -> Any:
    super_client = RecordingClient({"vc-1": body, **objects})
    tenants = KnownTenants(client)
    means = fake_means(super_client, tenant_clients=tenants)
    result = await tenant_content.reconcile_content(means, KEY)
    written = super_client.bodies[-1]["status"] if super_client.bodies else None
    return result, written, tenants


@pytest.mark.parametrize(
    ("body", "client"),
    [
        (cluster(policyRef={"name": "p"}), None),
        (cluster(policyRef={"name": "p"}, addons=[{"name": "a"}], deleting=True), "client"),
        (cluster(policyRef={"name": "p"}, addons=[{"name": "a"}], sleep={}), "client"),
        (cluster(), "client"),
    ],
)
async def test_nothing_is_done_for_a_tenant_that_is_away_or_has_no_content(
    monkeypatch, body, client
):
    outcome = Outcome(monkeypatch)
    result, written, _ = await run(body, client, p=SHARING)
    assert isinstance(result, Done)
    assert (written, outcome.rules, outcome.addons) == (None, [], 0)


async def test_both_conditions_and_the_applied_digests_are_written_in_one_apply(monkeypatch):
    Outcome(monkeypatch)
    body = cluster(policyRef={"name": "p"}, addons=[{"name": "a"}])
    result, written, tenants = await run(body, p=SHARING)
    assert isinstance(result, Done)
    assert tenants.watched == [False]
    assert [(each["type"], each["status"]) for each in written["conditions"]] == [
        (wellknown.ADDONS_APPLIED, "True"),
        (wellknown.SHARED_OBJECTS_READY, "True"),
    ]
    assert written["addons"] == [{"name": "a", "digest": "d"}]
    result, again, _ = await run({**body, "status": written}, p=SHARING)
    assert again is None  # nothing has changed


@pytest.mark.parametrize(
    ("shared", "reason"),
    [
        (SharedResult(1, ("Namespace x is no source.",)), "Incomplete"),
        (errors.Unavailable("away"), "Unreachable"),
        (errors.Forbidden("a webhook"), "Unreachable"),
    ],
)
async def test_a_problem_becomes_a_condition_and_is_retried(monkeypatch, shared, reason):
    Outcome(monkeypatch, shared=shared)
    result, written, _ = await run(cluster(policyRef={"name": "p"}), p=SHARING)
    assert isinstance(result, RequeueAfter)
    assert written["conditions"][0]["reason"] == reason


async def test_a_conflict_is_retried_at_once(monkeypatch):
    Outcome(monkeypatch, shared=errors.Conflict("changed"))
    with pytest.raises(errors.Conflict):
        await run(cluster(policyRef={"name": "p"}), p=SHARING)


async def test_addons_that_failed_keep_the_digests_of_before(monkeypatch):
    Outcome(monkeypatch, applied=errors.Unavailable("away"))
    body = cluster(addons=[{"name": "a"}])
    body["status"] = {"addons": [{"name": "a", "digest": "old"}]}
    result, written, _ = await run(body)
    assert isinstance(result, RequeueAfter)
    assert written["addons"] == [{"name": "a", "digest": "old"}]


async def test_objects_leave_when_the_policy_no_longer_shares_any(monkeypatch):
    outcome = Outcome(monkeypatch)
    before = [{"type": wellknown.SHARED_OBJECTS_READY, "status": "True", "reason": "Shared"}]
    result, written, tenants = await run(cluster(conditions=before))
    assert isinstance(result, Done)
    assert (outcome.rules, tenants.ended) == ([()], 1)
    assert written == {"conditions": []}


async def test_a_missing_policy_touches_nothing(monkeypatch):
    outcome = Outcome(monkeypatch)
    before = [{"type": wellknown.SHARED_OBJECTS_READY, "status": "True", "reason": "Shared"}]
    result, written, _ = await run(cluster(policyRef={"name": "p"}, conditions=before))
    assert isinstance(result, RequeueAfter)
    assert outcome.rules == []
    assert written["conditions"][0]["reason"] == "PolicyUnavailable"
