"""Probe of a tenant's quota: two namespaces, each below it and together above it.

Hazard: each of the two pods must request a part of what is left. Pods that request a part of the
whole quota would both be refused in a tenant that is in use, and would prove nothing.
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from kubectl_vc.audit import fixture, prober
from kubectl_vc.audit.decision import Verdict
from kubectl_vc.audit.fixture import AuditFixture, TenantSide
from kubectl_vc.audit.report import AuditResult
from kubeio import Object, errors
from kubeio.api.client import Client
from tenancy import quantities, wellknown
from tenancy.policies import TenantPolicySpec
from tenancy.resources import PODS

_PROBE = "quota-over-namespaces"
_POD = "quota"
_RESOURCES = ("cpu", "memory")
_SHARE = Decimal("0.6")
"""Part of the rest that each pod requests. Two of them are more than the rest."""
_TRIES = 30
_LATE_SECONDS = 3


async def run_quota_probe(
    work: AuditFixture, own: TenantSide, policy: TenantPolicySpec, image: str
) -> AuditResult:
    """Create one pod in each of two namespaces, and return the verdict about their twins."""
    limit = find_limit(policy.quota)
    if limit is None:
        return _build_result(Verdict.ABSENT, "the policy has no quota of cpu or memory")
    name, hard = limit
    selector = f"{wellknown.VC_UID}={own.tenant.uid}"
    pods = await work.super_client.list(PODS, label_selector=selector)
    request = choose_request(name, hard, pods.get("items") or [])
    second = dataclasses.replace(own, namespace=f"{own.namespace}-quota")
    await work.create_namespace(second.client, second.namespace)
    work.expect_removal(second.super_namespace)
    made = [await _create(work, side, image, {name: request}) for side in (own, second)]
    synced = await _count_twins(work.super_client, (own, second), made)
    return judge_quota(synced, f"{request} of {name} twice")


def find_limit(quota: Mapping[str, Any]) -> tuple[str, Decimal] | None:
    """Return the resource and the amount of a quota that pods use. None without one."""
    for name in _RESOURCES:
        for key in (f"requests.{name}", name):
            hard = quantities.parse_quantity(str(quota.get(key) or ""))
            if hard:
                return name, hard
    return None


def choose_request(name: str, hard: Decimal, pods: Iterable[Mapping[str, Any]]) -> str:
    """Return the request of each pod, from the limit and the super pods of the tenant."""
    requests = (
        ((container.get("resources") or {}).get("requests") or {}).get(name)
        for pod in pods
        for container in pod["spec"].get("containers") or ()
    )
    used = sum((quantities.parse_quantity(each) or Decimal(0) for each in requests), Decimal(0))
    return quantities.format_quantity(max(hard - used, Decimal(0)) * _SHARE)


def judge_quota(synced: int, requested: str) -> AuditResult:
    """Return the verdict from the number of pods with a twin. The first pod is the control."""
    if synced > 1:
        return _build_result(Verdict.FAILED, f"both pods were synced, {requested}")
    if synced == 0:
        return _build_result(Verdict.UNKNOWN, f"the control failed: no pod was synced, {requested}")
    return _build_result(Verdict.PASSED, f"one of two pods was synced, {requested}")


async def _create(
    work: AuditFixture, side: TenantSide, image: str, requests: Mapping[str, str]
) -> Object | None:
    pod = prober.build_plain_pod(_POD, image)
    pod["spec"]["containers"][0]["resources"] = {"requests": dict(requests)}
    with contextlib.suppress(errors.ApiError):
        return await work.create(side.client, PODS, pod, side.namespace)
    return None


async def _count_twins(
    super_client: Client, sides: Iterable[TenantSide], made: Iterable[Object | None]
) -> int:
    """Return the number of pods with a twin, some seconds after the first one."""
    pairs = [(side, pod) for side, pod in zip(sides, made, strict=True) if pod is not None]

    async def count() -> int:
        found = [await fixture.find_twin(super_client, side, PODS, pod) for side, pod in pairs]
        return sum(1 for twin in found if twin is not None)

    for _ in range(_TRIES):
        if await count():
            break
        await asyncio.sleep(1)
    await asyncio.sleep(_LATE_SECONDS)
    return await count()


def _build_result(verdict: Verdict, note: str) -> AuditResult:
    return AuditResult(
        probe=_PROBE,
        source="tenant's API",
        target="Pods of two namespaces",
        expected="one synced",
        seen="both synced" if verdict is Verdict.FAILED else "not both",
        control="first pod",
        verdict=verdict,
        note=note,
    )
