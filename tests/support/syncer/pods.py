"""A tenant pod, what is known of its tenant, and the super pod that is built of both."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from syncer.model.rejections import RejectedError
from syncer.rules.pods import pod_build
from syncer.rules.pods.dns import DnsResolver
from syncer.rules.pods.pod_build import PodBuildContext
from syncer.rules.pods.scheduling import SchedulingContext
from tenancy.ownership import Tenant

TENANT = Tenant(name="vc", namespace="default", uid="vc-uid", root="default-abc123-vc")
ACCOUNT = "account-uid"


def below(namespace: str) -> str:
    """Return a super namespace."""
    return f"{TENANT.root}-{namespace}"


FACTS = PodBuildContext(
    tenant=TENANT,
    super_namespace=below("web"),
    super_namespace_uid="space-uid",
    resolver=DnsResolver(server="10.96.8.10", domain="cluster.local", allows_node_dns=False),
    scheduling=SchedulingContext(
        vc_uid=TENANT.uid,
        namespace="web",
        super_namespace=below,
        namespaces={"web": {"team": "a"}, "db": {"team": "a"}, "other": {"team": "b"}},
        nodes={"node-1"},
    ),
    account_uid=ACCOUNT,
)


def pod(metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a tenant pod as its API server hands it out."""
    return {
        "metadata": {"name": "p", "namespace": "web", "uid": "pod-uid", **(metadata or {})},
        "spec": {"containers": [{"name": "main", "image": "i"}], **spec},
        "status": {"phase": "Pending"},
    }


def build(tenant_pod: dict[str, Any]) -> dict[str, Any]:
    """Return the super pod, and see that the tenant's object is as it was."""
    before = copy.deepcopy(tenant_pod)
    built = pod_build.build_super_pod(tenant_pod, FACTS)
    assert tenant_pod == before
    return built.pod


def rules(tenant_pod: dict[str, Any]) -> set[str]:
    """Return the rules that reject a pod."""
    with pytest.raises(RejectedError) as raised:
        pod_build.build_super_pod(tenant_pod, FACTS)
    assert TENANT.root not in str(raised.value)
    return {problem.rule for problem in raised.value.problems}
