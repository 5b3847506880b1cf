"""The stolen token of the syncer's account in a target: what the target itself refuses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kubeio import Object
from kubeio.api.client import Client
from kubeio.errors import ApiError, Forbidden
from tenancy import wellknown
from tenancy.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    ROLE_BINDINGS,
    SECRETS,
)
from tests.chart.gate import marked, refused, space, tenant
from tests.integration.kubectl_vc.conftest import TwoClusterUser
from tests.support.account_tokens import request_account_token
from tests.support.eventually import eventually

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"

READS = (
    "/api/v1/secrets",
    "/api/v1/secrets?watch=true&timeoutSeconds=1",
    "/api/v1/namespaces/kube-system/secrets/any",
    "/api/v1/namespaces/default/secrets?watch=true&timeoutSeconds=1",
    "/api/v1/namespaces/{accounts}/secrets/any",
    "/api/v1/namespaces/kube-system/pods/any/log",
    "/api/v1/nodes/any/proxy/pods",
    f"{RBAC}/rolebindings",
    f"{RBAC}/clusterroles",
    f"{RBAC}/namespaces/{{accounts}}/roles",
    "/apis/apps/v1/deployments",
    f"{ADMISSION}/validatingadmissionpolicies",
)
"""Paths that the account may not read."""


def writes(below: str, accounts: str, policy: str, own: Object) -> list[tuple[str, str, Object]]:
    """Return writes outside of the account's purpose. `below` is a super namespace."""
    secret = {"metadata": {"name": "s", **own}}
    pod = {
        "metadata": {"name": "p", **own},
        "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}]},
    }
    service = {"metadata": {"name": "s", **own}, "spec": {"ports": [{"port": 80}]}}
    role = {"metadata": {"name": "mine"}, "rules": []}
    wide = {
        "metadata": {"name": "mine", **own},
        "roleRef": {"apiGroup": ROLE_BINDINGS.group, "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "vc-syncer", "namespace": accounts}],
    }
    outside = ("kube-system", "default", accounts)
    return [
        *(("POST", f"/api/v1/namespaces/{place}/secrets", secret) for place in outside),
        *(("POST", f"/api/v1/namespaces/{place}/pods", pod) for place in outside),
        *(("POST", f"/api/v1/namespaces/{place}/services", service) for place in outside),
        *(("POST", f"{RBAC}/namespaces/{place}/rolebindings", wide) for place in (*outside, below)),
        ("POST", f"{RBAC}/clusterrolebindings", wide),
        ("POST", f"{RBAC}/clusterroles", role),
        ("POST", f"{RBAC}/namespaces/{below}/roles", role),
        ("POST", "/api/v1/namespaces", {"metadata": {"name": "mine"}}),
        ("PATCH", "/api/v1/namespaces/default", {"metadata": {"labels": {"a": "b"}}}),
        *(("DELETE", f"/api/v1/namespaces/{place}", {}) for place in outside),
        ("PATCH", "/api/v1/nodes/any", {"metadata": {"labels": {"a": "b"}}}),
        ("POST", "/api/v1/namespaces/kube-system/serviceaccounts/default/token", {"spec": {}}),
        ("POST", f"/api/v1/namespaces/{accounts}/serviceaccounts/default/token", {"spec": {}}),
        ("POST", f"/api/v1/namespaces/{below}/pods/p/exec?command=id", {}),
        ("POST", f"/apis/apps/v1/namespaces/{below}/deployments", {"metadata": {"name": "d"}}),
        ("DELETE", f"{ADMISSION}/validatingadmissionpolicies/{policy}", {}),
        ("DELETE", f"{ADMISSION}/validatingadmissionpolicybindings/{policy}", {}),
        ("POST", f"{ADMISSION}/mutatingwebhookconfigurations", {"metadata": {"name": "w"}}),
    ]


async def test_outside_of_its_purpose_the_account_reads_and_writes_nothing(two: TwoClusterUser):
    """SEC-73: each with a 403 of the target."""
    assert (await two.join()).code == 0
    of, token = tenant(), (await two.credentials()).token
    body, own, accounts = space(of), marked(of), two.plan.namespace
    below, policy = body["metadata"]["name"], two.plan.policy_name
    async with Client(two.other.endpoint_with_token(token=token)) as account:
        foreign = {"metadata": {"name": "a", "namespace": "default", **own}}
        await refused(lambda: account.create(CONFIG_MAPS, foreign, dry_run=True), f"'{policy}'")
        await account.create(NAMESPACES, body)
        attempts: list[tuple[str, str, Object | None]] = [
            ("GET", path.format(accounts=accounts), None) for path in READS
        ]
        attempts += [
            (verb, f"{path}{'&' if '?' in path else '?'}dryRun=All", sent)
            for verb, path, sent in writes(below, accounts, policy, own)
        ]
        assert len(attempts) >= 30
        for verb, path, sent in attempts:
            kind = {"PATCH": "application/merge-patch+json"}.get(verb, "application/json")
            with pytest.raises(ApiError) as told:
                await account.raw(verb, path, body=sent, content=kind)
            assert told.value.status == 403, (verb, path, str(told.value))


async def test_the_account_is_inside_the_gate_and_its_token_ends(two: TwoClusterUser):
    """SEC-73: in the target as at home."""
    assert (await two.join()).code == 0
    name = f"target-{two.name}"
    secret = await two.desk.client.get(SECRETS, name, namespace=two.desk.namespace)
    times = secret["metadata"]["annotations"]
    left = datetime.fromisoformat(times[wellknown.EXPIRES]) - datetime.now(UTC)
    assert timedelta(days=6) < left <= timedelta(days=7)
    assert times[wellknown.TOKEN_RENEW] < times[wellknown.EXPIRES]
    of, token = tenant(), (await two.credentials()).token
    body, own = space(of), marked(of)
    below, policy = body["metadata"]["name"], f"'{two.plan.policy_name}'"
    async with Client(two.other.endpoint_with_token(token=token)) as account:
        foreign = {"metadata": {"name": "a", "namespace": "default", **own}}
        await refused(lambda: account.create(CONFIG_MAPS, foreign, dry_run=True), policy)
        for namespace in ("", "kube-system", "default", two.plan.namespace):
            with pytest.raises(Forbidden):
                await account.list(SECRETS, namespace=namespace)
        made = await account.create(NAMESPACES, body)
        bound = {
            "metadata": {"name": "vc-syncer", "namespace": below, **own},
            "roleRef": {
                "apiGroup": ROLE_BINDINGS.group,
                "kind": "ClusterRole",
                "name": two.plan.namespace_role_name,
            },
            "subjects": [
                {
                    "kind": "ServiceAccount",
                    "name": "vc-syncer",
                    "namespace": two.plan.namespace,
                }
            ],
        }
        other = {**bound, "subjects": [{**bound["subjects"][0], "name": "vn-agent"}]}
        await refused(lambda: account.create(ROLE_BINDINGS, other, dry_run=True), policy)
        await account.create(ROLE_BINDINGS, bound)
        await eventually(lambda: account.list(SECRETS, namespace=below))
        head = {"metadata": {"name": "app", "namespace": below, **own}}
        await account.create(SECRETS, head)
        await account.delete(SECRETS, "app", namespace=below)
        for each in ("vc-syncer", "vn-agent"):
            await request_account_token(account, two.plan.namespace, each)
        await account.delete(NAMESPACES, below, uid=made["metadata"]["uid"])
