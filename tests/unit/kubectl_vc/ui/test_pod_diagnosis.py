"""The answer of `kubectl vc why` on the page of a pod."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kubectl_vc.diagnosis.layer_table import Diagnosis, LayerFinding
from kubectl_vc.diagnosis.object_facts import ObjectFacts
from kubectl_vc.ui.pod_diagnosis import DiagnosedPod, build_diagnosis, diagnose_pod
from kubeio import errors
from tenancy.ownership import Tenant

FACTS = ObjectFacts(kind="Pod", name="p", namespace="shop", now=datetime(2026, 6, 1, tzinfo=UTC))


def test_a_held_pod_has_layer_reason_and_next_step():
    finding = LayerFinding("No node.", "kubectl get nodes", "2026-05-31T23:59:00Z")
    found = build_diagnosis(FACTS, Diagnosis("scheduler", finding, is_held=True))
    assert (found.held_by.text, found.held_by.grade) == ("scheduler", "bad")
    assert (found.since, found.reason, found.next_command) == (
        *("60s ago", "No node.", "kubectl get nodes"),
    )
    free = build_diagnosis(FACTS, Diagnosis("none", LayerFinding("Runs.", ""), is_held=False))
    assert (free.held_by.text, free.since) == ("nothing", "")


class DownTenant:
    """A tenant whose API does not answer."""

    async def get(self, *_: Any, **__: Any) -> Any:
        raise errors.Unavailable("connection refused")

    async def list(self, *words: Any, **options: Any) -> Any:
        return await self.get(*words, **options)


class BareSuper:
    """A super cluster without any object."""

    async def get(self, *_: Any, **__: Any) -> Any:
        raise errors.NotFound("no", status=404)

    async def list(self, *_: Any, **__: Any) -> Any:
        return {"items": []}


@pytest.mark.parametrize("client", [None, DownTenant()])
async def test_a_tenant_that_does_not_answer_leaves_the_layers_of_the_super_cluster(client: Any):
    tenant = Tenant(name="web", namespace="d", uid="u", root="root")
    body = {"metadata": {"name": "web", "namespace": "d", "uid": "u"}, "spec": {}}
    home: Any = BareSuper()
    found = await diagnose_pod(
        DiagnosedPod(
            super_client=home,
            tenant_client=client,
            tenant_problem="",
            virtual_cluster=body,
            tenant=tenant,
            manager_namespace="vc-manager",
            namespace="shop",
            name="p",
        )
    )
    assert found.held_by.grade == "bad"
    assert found.reason
