"""Why a tenant is not synced, and the end of the pods of one that sleeps."""

from types import SimpleNamespace
from typing import Any

import pytest

from kubeio import errors
from syncer.lifecycle import inactive_tenants
from tenancy.resources import PODS
from tenancy.specs import SleepSpec, VirtualClusterSpec

UID = "d64ea0c0"


@pytest.mark.parametrize(
    ("suspend", "sleep", "reason", "stops"),
    [
        (False, None, None, False),
        (False, SleepSpec(), "Asleep", False),
        (False, SleepSpec(workloads="ScaleToZero"), "Asleep", True),
        (True, None, "Suspended", False),
        # A suspension is for emergencies, so it keeps the pods.
        (True, SleepSpec(workloads="ScaleToZero"), "Suspended", False),
    ],
)
def test_why_a_tenant_is_not_synced(suspend, sleep, reason, stops):
    spec = VirtualClusterSpec(cluster_version_name="v1.36", suspend=suspend, sleep=sleep)
    found = inactive_tenants.find_inactivity(spec)
    assert (found.reason if found else None) == reason
    assert bool(found and found.stops_pods) is stops
    assert found is None or ("stay" in found.message) is not stops


class Home:
    """The pods of a tenant, and the answers to their deletes."""

    def __init__(self, answers: dict[str, Exception | None]) -> None:
        self.deleted: list[tuple[str, str]] = []
        self._answers = answers
        entries = [
            SimpleNamespace(name=name, namespace="s", uid=f"uid-{name}", deleting=name == "ending")
            for name in answers
        ]
        self.stores = {
            PODS.kind: SimpleNamespace(index=lambda _, uid: entries if uid == UID else [])
        }
        self.client = self

    async def delete(self, _: Any, name: str, *, namespace: str, uid: str) -> None:
        assert namespace == "s"
        self.deleted.append((name, uid))
        problem = self._answers[name]
        if problem is not None:
            raise problem


@pytest.mark.parametrize(
    ("problem", "result"),
    [
        (None, inactive_tenants.RECHECK_SECONDS),
        (errors.NotFound("x"), inactive_tenants.RECHECK_SECONDS),
        (errors.Conflict("another pod has its name"), inactive_tenants.RECHECK_SECONDS),
        (errors.Unavailable("x"), None),
    ],
)
async def test_each_pod_is_deleted_by_its_uid_and_a_failure_stops_no_other(problem, result):
    """REL-133."""
    home = Home({"a": problem, "ending": None, "b": None})
    assert await inactive_tenants.stop_pods(home, UID) == result  # type: ignore[arg-type]
    assert home.deleted == [("a", "uid-a"), ("b", "uid-b")]
    assert await inactive_tenants.stop_pods(home, "other") == inactive_tenants.RECHECK_SECONDS  # type: ignore[arg-type]
    assert len(home.deleted) == 2
