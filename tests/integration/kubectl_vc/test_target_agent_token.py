"""The stolen token of the agent's account in a target: what the target itself refuses.

A thief of the syncer's token there can mint it, so both tokens have one bound.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest

from kubeio.api.client import Client
from tenancy.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_ROLE_BINDINGS,
    NAMESPACES,
    NODES,
    PODS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from tests.chart.gate import marked, space, tenant
from tests.chart.stolen_tokens import build_signing_request
from tests.integration.kubectl_vc.conftest import TwoClusterUser, is_there, pod
from tests.support.account_tokens import request_account_token
from tests.support.grants import build_account
from tests.support.names import fresh_name
from tests.support.refusals import Attempt, check_passes, check_refused, list_streams

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
MODES = ("apiserver", "agent")


async def steal(two: TwoClusterUser) -> str:
    """Return a token of the agent's account, requested with the stolen token of the syncer's."""
    endpoint = two.other.endpoint_with_token(token=(await two.credentials()).token)
    async with Client(endpoint) as syncer:
        return await request_account_token(syncer, two.plan.namespace, "vn-agent")


@contextlib.asynccontextmanager
async def place(two: TwoClusterUser) -> AsyncIterator[tuple[str, list[str]]]:
    """Yield a super namespace, and the namespaces outside of tenants. Each has the pod `p`."""
    of, free = tenant(), fresh_name("free")
    made = space(of)
    below = made["metadata"]["name"]
    await two.there.create(NAMESPACES, made)
    await two.there.create(NAMESPACES, {"metadata": {"name": free}})
    outside = ["kube-system", "default", two.plan.namespace, free]
    for namespace in (below, *outside):
        body = pod("p", namespace)
        if namespace == below:
            body["metadata"] |= marked(of)
        await two.there.apply(PODS, body, field_manager="test")
    yield below, outside


def list_reads(below: str, accounts: str) -> list[Attempt]:
    """Return reads that RBAC refuses."""
    return [
        Attempt("GET", path)
        for path in (
            "/api/v1/secrets",
            f"/api/v1/namespaces/{below}/secrets",
            f"/api/v1/namespaces/{accounts}/secrets/any",
            f"/api/v1/namespaces/{below}/configmaps",
            f"/api/v1/namespaces/{below}/pods/p",
            "/api/v1/pods?watch=true&timeoutSeconds=1",
            "/api/v1/namespaces",
            "/api/v1/nodes",
            "/api/v1/nodes/any/proxy/pods",
            "/api/v1/services",
            f"{RBAC}/clusterroles",
            f"{ADMISSION}/validatingadmissionpolicies",
        )
    ]


def list_exempt_writes(policy: str) -> list[Attempt]:
    """Return writes that admission policies never see. RBAC alone refuses them."""
    review = {"spec": {"token": "any"}}
    return [
        Attempt("DELETE", f"{ADMISSION}/validatingadmissionpolicies/{policy}"),
        Attempt("DELETE", f"{ADMISSION}/validatingadmissionpolicybindings/{policy}"),
        Attempt("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review),
    ]


def list_writes(below: str, accounts: str) -> list[Attempt]:
    """Return writes, of which the account needs none. Each namespace has the pod `p`."""
    secret = {"metadata": {"name": "s"}}
    binding = {
        "metadata": {"name": "mine"},
        "roleRef": {
            "apiGroup": CLUSTER_ROLE_BINDINGS.group,
            "kind": "ClusterRole",
            "name": "cluster-admin",
        },
        "subjects": [build_account("vn-agent", accounts)],
    }
    places = (below, "kube-system", "default", accounts)
    return [
        *(Attempt("POST", f"/api/v1/namespaces/{each}/secrets", secret) for each in places),
        *(Attempt("POST", f"/api/v1/namespaces/{each}/configmaps", secret) for each in places),
        *(Attempt("POST", f"/api/v1/namespaces/{each}/pods", pod("n", each)) for each in places),
        *(Attempt("DELETE", f"/api/v1/namespaces/{each}/pods/p") for each in places),
        *(
            Attempt(
                "POST", f"/api/v1/namespaces/{each}/serviceaccounts", {"metadata": {"name": "s"}}
            )
            for each in places
        ),
        *(
            Attempt(
                "POST", f"{RBAC}/namespaces/{each}/rolebindings", {**binding, "kind": "RoleBinding"}
            )
            for each in places
        ),
        Attempt("POST", f"{RBAC}/clusterrolebindings", binding),
        Attempt("POST", "/api/v1/namespaces", {"metadata": {"name": fresh_name("n")}}),
        Attempt("DELETE", f"/api/v1/namespaces/{below}"),
        Attempt("PATCH", f"/api/v1/namespaces/{below}", {"metadata": {"labels": {"a": "b"}}}),
        Attempt("POST", "/api/v1/nodes", {"metadata": {"name": fresh_name("n")}}),
        Attempt(
            "POST", f"/api/v1/namespaces/{accounts}/serviceaccounts/vc-syncer/token", {"spec": {}}
        ),
        Attempt("POST", CERTIFICATE_SIGNING_REQUESTS.build_path(), build_signing_request()),
    ]


@pytest.mark.parametrize("mode", MODES)
async def test_outside_of_its_purpose_the_agents_account_has_nothing(
    two: TwoClusterUser, mode: str
):
    """SEC-73: with the rights of the join alone, each with a 403 of the target."""
    assert (await two.join("--mode", mode)).code == 0
    accounts, policy = two.plan.namespace, two.plan.agent_policy_name
    async with place(two) as (below, outside):
        streams = [each for namespace in outside for each in list_streams(namespace, "p")]
        reads = list_reads(below, accounts)
        writes = [*list_writes(below, accounts), *list_exempt_writes(policy)]
        async with Client(two.other.endpoint_with_token(token=await steal(two))) as agent:
            await check_refused(agent, [*streams, *reads, *writes])
            if mode == "apiserver":
                await check_refused(agent, [*streams, *streams_elsewhere(outside)], reason=policy)


def streams_elsewhere(outside: list[str]) -> list[Attempt]:
    """Return streams to pods that do not exist. The answer must not depend on that."""
    return [each for namespace in outside[:2] for each in list_streams(namespace, "missing")]


async def test_the_policy_alone_refuses_what_the_agents_account_does_not_need(two: TwoClusterUser):
    """SEC-73: bound to cluster-admin, the account still only opens streams to pods of tenants."""
    assert (await two.join()).code == 0
    accounts, policy = two.plan.namespace, f"'{two.plan.agent_policy_name}'"
    name, node = fresh_name("wide"), fresh_name("node")
    wide = {
        "metadata": {"name": name},
        "roleRef": {
            "apiGroup": CLUSTER_ROLE_BINDINGS.group,
            "kind": "ClusterRole",
            "name": "cluster-admin",
        },
        "subjects": [build_account("vn-agent", accounts)],
    }
    await two.there.create(CLUSTER_ROLE_BINDINGS, wide)
    await two.there.create(NODES, {"metadata": {"name": node}})
    try:
        async with place(two) as (below, outside):
            streams = [each for namespace in outside for each in list_streams(namespace, "p")]
            nodes = [
                Attempt(verb, f"/api/v1/nodes/{node}/proxy/pods") for verb in ("GET", "POST", "PUT")
            ]
            writes = list_writes(below, accounts)
            async with Client(two.other.endpoint_with_token(token=await steal(two))) as agent:
                await check_refused(agent, [*streams, *nodes, *writes], reason=policy)
                for attempt in list_streams(below, "p"):
                    await check_passes(agent, attempt)
    finally:
        await two.there.delete(CLUSTER_ROLE_BINDINGS, name)


@pytest.mark.parametrize("mode", MODES)
async def test_one_life_of_an_agent_in_a_target_passes(two: TwoClusterUser, mode: str):
    """SEC-73: with the rights of the join alone, all that an agent does with its token."""
    assert (await two.join("--mode", mode)).code == 0
    async with (
        place(two) as (below, _),
        Client(two.other.endpoint_with_token(token=await steal(two))) as agent,
    ):
        listed = await agent.list(PODS, namespace=below, field_selector="metadata.name=p")
        assert [each["metadata"]["name"] for each in listed["items"]] == ["p"]
        if mode == "apiserver":
            log = Attempt("GET", f"/api/v1/namespaces/{below}/pods/p/log?container=a")
            for attempt in (*list_streams(below, "p"), log):
                await check_passes(agent, attempt)
            return
        user = f"system:serviceaccount:{two.plan.namespace}:vn-agent"
        for verb in ("get", "create"):  # The kubelet asks RBAC.
            asked = {"resource": "nodes", "subresource": "proxy", "verb": verb}
            review = {"spec": {"user": user, "resourceAttributes": asked}}
            answer = await two.there.raw(
                "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body=review
            )
            assert b'"allowed":true' in answer, verb


async def test_a_leave_removes_the_policy_of_the_agents_account(two: TwoClusterUser):
    assert (await two.join()).code == 0
    kinds = (VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS)
    names = (two.plan.policy_name, two.plan.agent_policy_name)
    assert all([await is_there(two.there, kind, name) for kind in kinds for name in names])
    done = await two.leave("--target-kubeconfig", "other")
    assert (done.code, done.err) == (0, "")
    assert not any([await is_there(two.there, kind, name) for kind in kinds for name in names])
