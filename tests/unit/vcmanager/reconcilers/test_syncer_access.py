"""Facts that limit the syncer's account: levels of tenants, and Secrets of targets."""

from __future__ import annotations

from typing import Any

import pytest

from kubeio.controller.worker import RequeueAfter
from tenancy import wellknown
from tests.support.vcmanager.factories import RecordingClient, fake_means
from vcmanager.reconcilers import syncer_access
from vcmanager.runtime import keys
from vcmanager.runtime.options import OperatorSettings
from vcmanager.watches import kopf_watches


def policy(name: str, level: str, *, ports: str = "Refuse") -> dict[str, Any]:
    spec = {"security": {"level": level}, "network": {"hostPorts": ports}}
    return {"metadata": {"name": name}, "spec": spec}


def cluster(uid: str, name: str | None = None) -> dict[str, Any]:
    reference = {} if name is None else {"policyRef": {"name": name}}
    return {
        "metadata": {"namespace": "default", "name": uid, "uid": uid},
        "spec": {"clusterVersionName": "v1.36", **reference},
    }


def target(name: str, secret: str | None) -> dict[str, Any]:
    spec = {} if secret is None else {"secretRef": {"name": secret}}
    return {"metadata": {"name": name, "uid": name}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "levels"),
    [
        (policy("a", "restricted"), ("restricted", "restricted")),
        (policy("a", "baseline"), ("baseline", "baseline")),
        (policy("a", "baseline", ports="Allow"), ("privileged", "baseline")),
        (policy("a", "privileged"), ("privileged", "privileged")),
    ],
)
def test_the_levels_are_those_of_the_policy(spec, levels):
    assert syncer_access.compute_levels([spec], [cluster("one", "a")]) == {"one": levels}


def test_a_tenant_without_a_readable_policy_is_left_out():
    wrong = policy("wrong", "restricted", ports="Allow")
    found = syncer_access.compute_levels(
        [wrong], [cluster("one", "wrong"), cluster("two", "missing"), cluster("three")]
    )
    assert found == {"three": ("baseline", "baseline")}
    assert syncer_access.compute_levels([policy("baseline", "restricted")], [cluster("a")]) == {
        "a": ("restricted", "restricted")
    }


def test_the_role_names_the_secrets_of_targets_and_no_others():
    role = syncer_access.build_targets_role(
        [target("home", None), target("c3", "b"), target("c2", "a")], "vc-manager"
    )
    (rule,) = role["rules"]
    assert (rule["resourceNames"], rule["verbs"]) == (["a", "b"], ["get", "list", "watch"])
    assert syncer_access.build_targets_role([target("home", None)], "vc-manager")["rules"] == []


@pytest.mark.parametrize(
    ("levels", "verbs"),
    [
        (("restricted", "restricted"), ["run", "label-restricted"]),
        (("baseline", "baseline"), ["run", "label-restricted", "label-baseline"]),
        (
            ("privileged", "baseline"),
            ["run", "label-restricted", "label-baseline", "label-privileged"],
        ),
        (
            ("privileged", "privileged"),
            ["run", "run-privileged", "label-restricted", "label-baseline", "label-privileged"],
        ),
    ],
)
def test_a_tenant_may_have_its_level_and_those_below(levels, verbs):
    found = {uid: syncer_access.TenantLevels(*levels) for uid in ("two", "one")}
    (rule,) = syncer_access.build_levels_role(found, "vc-manager")["rules"]
    assert (rule["resourceNames"], rule["verbs"]) == (["one", "two"], verbs)
    assert syncer_access.build_levels_role({}, "vc-manager")["rules"] == []


async def test_a_change_of_a_policy_or_a_target_enqueues_the_key():
    woken: list[keys.ReconcileKey] = []
    handlers = kopf_watches._WatchHandlers(woken.append, OperatorSettings(registry=""))
    await handlers._on_policy("MODIFIED", {"metadata": {"name": "shops", "uid": "p"}})
    assert keys.SYNCER_ACCESS_KEY in woken
    woken.clear()
    body: Any = {"metadata": {"name": "c2", "uid": "u"}, "spec": {}}
    await handlers._on_super_cluster("ADDED", body)
    assert keys.SYNCER_ACCESS_KEY in woken


async def test_both_objects_are_written_once():
    client = RecordingClient()
    means = fake_means(client)
    found = await syncer_access.reconcile_syncer_access(means, keys.SYNCER_ACCESS_KEY)
    assert isinstance(found, RequeueAfter)
    names = [body["metadata"]["name"] for body in client.bodies]
    assert names == [wellknown.SYNCER_LEVELS_ROLE, wellknown.SYNCER_TARGETS_ROLE]
