"""Permissions of tenants by policy, as written for the agents."""

from typing import Any

import pytest

from kubeio.controller.worker import RequeueAfter
from tenancy import agent_permissions, wellknown
from tenancy.agent_permissions import KubeletCall
from tenancy.policies import AccessSpec
from tests.support.vcmanager.factories import RecordingClient, fake_means
from vcmanager.agents import permissions
from vcmanager.runtime import keys
from vcmanager.runtime.context import RESYNC_SECONDS
from vcmanager.runtime.options import OperatorSettings
from vcmanager.watches import kopf_watches

ALL = frozenset(KubeletCall)


def policy(name: str, **access: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"access": access}}


def cluster(uid: str, policy: str | None = None, **more: Any) -> dict[str, Any]:
    reference = {} if policy is None else {"policyRef": {"name": policy}}
    return {
        "metadata": {"namespace": "default", "name": uid, "uid": uid},
        "spec": {"clusterVersionName": "v1.36", **reference},
        **more,
    }


def test_each_switch_stands_for_one_call():
    fields = {
        field: True for field in AccessSpec.__struct_fields__ if field != "ephemeral_containers"
    }
    assert len(fields) == len(KubeletCall)
    for call, switch in {
        KubeletCall.LOGS: "logs",
        KubeletCall.EXEC: "exec",
        KubeletCall.ATTACH: "attach",
        KubeletCall.PORT_FORWARD: "portForward",
    }.items():
        found = permissions.compute_permissions([policy("shops", **{switch: False})], [])
        assert found.policies["shops"] == ALL - {call}


def test_a_tenant_has_the_policy_that_it_names_or_the_default():
    found = permissions.compute_permissions(
        [policy("baseline", exec=False), policy("shops", logs=False)],
        [cluster("one"), cluster("two", "shops"), cluster("three", "baseline")],
    )
    assert found.tenants == {"one": "baseline", "two": "shops", "three": "baseline"}
    assert found.policies["baseline"] == ALL - {KubeletCall.EXEC}


def test_without_the_default_there_is_the_built_in_one_but_for_no_client_that_names_it():
    found = permissions.compute_permissions([], [cluster("one"), cluster("two", "baseline")])
    assert found.policies[found.tenants["one"]] == ALL
    assert found.tenants["two"] not in found.policies


@pytest.mark.parametrize("name", [None, "baseline"])
def test_a_policy_that_cannot_be_read_has_no_calls(name):
    broken = {"metadata": {"name": "baseline"}, "spec": {"access": {"exec": "maybe"}}}
    found = permissions.compute_permissions([broken], [cluster("one", name)])
    assert found.tenants["one"] not in found.policies


def test_a_tenant_that_cannot_be_read_is_left_out_and_takes_no_one_along():
    odd = cluster("odd") | {"spec": {"policyRef": 5}}
    strange = cluster("strange", status={"phase": "Whatever"})
    found = permissions.compute_permissions([], [odd, cluster("one"), strange])
    assert set(found.tenants) == {"one", "strange"}


async def test_what_is_written_bears_what_its_watch_selects_and_is_written_once():
    super_client = RecordingClient()
    verdict = await permissions.reconcile_agent_access(
        fake_means(super_client), keys.AGENT_ACCESS_KEY
    )
    assert verdict == RequeueAfter(RESYNC_SECONDS)
    (body,) = super_client.bodies
    assert (body["metadata"]["name"], body["metadata"]["namespace"]) == (
        "vn-agent-access",
        "vc-manager",
    )
    assert body["metadata"]["labels"][wellknown.CONTROLLED] == "true"
    assert keys.get_owner_key(body["metadata"]) == keys.AGENT_ACCESS_KEY
    assert (
        agent_permissions.decode_permissions(body["data"][agent_permissions.DOCUMENT_KEY]).tenants
        == {}
    )
    again = RecordingClient({"vn-agent-access": body})
    await permissions.reconcile_agent_access(fake_means(again), keys.AGENT_ACCESS_KEY)
    assert again.calls == []
    body["data"] = {}
    await permissions.reconcile_agent_access(fake_means(again), keys.AGENT_ACCESS_KEY)
    assert again.calls == [("apply", "vn-agent-access")]


async def test_policies_and_bindings_enqueue_it_and_nothing_else_of_a_tenant_does():
    woken: list[keys.ReconcileKey] = []
    registry = kopf_watches._build_registry(
        endpoint=None, enqueue=woken.append, options=OperatorSettings(registry="")
    )
    handlers = {
        handler.selector.plural: handler.fn for handler in registry._watching.get_all_handlers()
    }

    async def tell(type: str | None, body: dict[str, Any]) -> bool:  # noqa: A002 - kopf's
        woken.clear()
        await handlers["virtualclusters"](type=type, body=body)
        return keys.AGENT_ACCESS_KEY in woken

    assert await tell(None, cluster("one"))
    assert not await tell("MODIFIED", cluster("one", status={"phase": "Running"}))
    assert await tell("MODIFIED", cluster("one", "shops"))
    assert not await tell("MODIFIED", cluster("one", "shops"))
    assert await tell("DELETED", cluster("one", "shops"))
    woken.clear()
    body = {"metadata": {"name": "shops", "uid": "p", "generation": 2}}
    await handlers["tenantpolicies"](type="MODIFIED", body=body)
    assert woken == [keys.AGENT_ACCESS_KEY, keys.SYNCER_ACCESS_KEY]
