"""Probe of a tenant's quota: two namespaces, each below it and together above it.

The usage is counted by the function of the syncer's accountant (ADR 0044). A probe that counts in
another way would report a hole in a sound tenant.

Hazard: each of the two pods must request a part of what is left. Pods that request a part of the
whole quota would both be refused in a tenant that is in use, and would prove nothing.

Hazard: the pods must not end while they are counted. A pod that has ended uses nothing, and the
second pod would rightly be synced.
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from kubectl_vc.audit import fixture, prober
from kubectl_vc.audit.decision import Verdict
from kubectl_vc.audit.fixture import AuditFixture, TenantSide
from kubectl_vc.audit.report import AuditResult
from kubeio import Object, errors
from kubeio.api.client import Client
from syncer.rules.quota import usage
from tenancy import quantities, wellknown
from tenancy.policies import TenantPolicySpec
from tenancy.policy import quotas
from tenancy.policy.quotas import THOUSANDTHS
from tenancy.resources import PODS

_PROBE = "quota-over-namespaces"
_POD = "quota"
_UNITS: Mapping[str, int] = {"cpu": 1, "memory": THOUSANDTHS}
"""Smallest request by resource, in thousandths: 1m of CPU, and 1 byte."""
_COUNTS = ("pods", "count/pods")
_TRIES = 30
_LATE_SECONDS = 3

Pods = Iterable[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class QuotaRoom:
    """Limits of a quota and the usage of pods, in thousandths by the name of the limit."""

    limits: quotas.Hard
    used: quotas.Hard

    def get_rest(self, name: str) -> int:
        """Return the rest of one limit. It is negative above the limit."""
        return self.limits[name] - self.used.get(name, 0)

    @property
    def is_exceeded(self) -> bool:
        """Whether the pods use more than a limit."""
        return any(self.get_rest(name) < 0 for name in self.limits)

    @property
    def full(self) -> list[str]:
        """The limits of which nothing is left."""
        return [name for name in self.limits if self.get_rest(name) <= 0]


@dataclass(frozen=True, slots=True)
class QuotaRequest:
    """The resource and the amount that each pod of the probe requests."""

    resource: str
    amount: str

    def describe(self) -> str:
        """Return the request for the report."""
        return f"{self.amount} of {self.resource} twice"


async def run_quota_probe(
    work: AuditFixture, own: TenantSide, policy: TenantPolicySpec, image: str
) -> AuditResult:
    """Create one pod in each of two namespaces, and return the verdict about their twins."""
    limits = find_limits(policy.quota)
    if not any(_list_names(resource, limits) for resource in _UNITS):
        return _build_result(Verdict.ABSENT, "the policy has no quota of cpu or memory")
    room = QuotaRoom(limits, count_usage(await _list_pods(work.super_client, own)))
    request = choose_request(room)
    if request is None:
        return _build_result(
            Verdict.UNKNOWN,
            f"the quota is used up: nothing is left of {', '.join(room.full)}. Delete pods of the"
            " tenant, then run the command again",
        )
    second = dataclasses.replace(own, namespace=f"{own.namespace}-quota")
    await work.create_namespace(second.client, second.namespace)
    work.expect_removal(second.super_namespace)
    made = [await _create(work, side, image, request) for side in (own, second)]
    synced = await _count_twins(work.super_client, (own, second), made)
    after = QuotaRoom(limits, count_usage(await _list_pods(work.super_client, own)))
    return judge_quota(synced, request.describe(), is_exceeded=after.is_exceeded)


def find_limits(quota: Mapping[str, Any]) -> quotas.Hard:
    """Return the limits of a quota that the pods of the probe use, in thousandths by name."""
    names = (*_COUNTS, *(name for resource in _UNITS for name in _build_names(resource)))
    return {name: quotas.parse_amount(quota[name]) for name in names if name in quota}


def count_usage(pods: Pods) -> quotas.Hard:
    """Return the usage of super pods, as the syncer counts it."""
    total: dict[str, int] = {}
    for pod in pods:
        for name, amount in usage.compute_usage("Pod", pod).items():
            total[name] = total.get(name, 0) + amount
    return total


def choose_request(room: QuotaRoom) -> QuotaRequest | None:
    """Return the request of each pod: about 60 % of the rest. None if no pod fits.

    Two requests are always more than the rest, and one never is.
    """
    if room.full:
        return None
    for resource, unit in _UNITS.items():
        names = _list_names(resource, room.limits)
        rest = min((room.get_rest(name) // unit for name in names), default=0)
        if rest > 0:
            amount = max(rest * 3 // 5, rest // 2 + 1) * unit
            text = quantities.format_quantity(Decimal(amount) / THOUSANDTHS)
            return QuotaRequest(resource, text)
    return None


def judge_quota(synced: int, requested: str, *, is_exceeded: bool) -> AuditResult:
    """Return the verdict from the number of pods with a twin. The first pod is the control.

    `is_exceeded` is whether the pods of the tenant now use more than the quota.
    """
    if synced > 1 and is_exceeded:
        return _build_result(Verdict.FAILED, f"both pods were synced, {requested}")
    if synced > 1:
        return _build_result(
            Verdict.UNKNOWN,
            f"both pods were synced, {requested}, but other pods of the tenant ended meanwhile",
        )
    if synced == 0:
        return _build_result(Verdict.UNKNOWN, f"the control failed: no pod was synced, {requested}")
    return _build_result(Verdict.PASSED, f"one of two pods was synced, {requested}")


def _build_names(resource: str) -> tuple[str, ...]:
    """Return the names of all limits of a resource. Each of them applies to the same request."""
    return (resource, f"requests.{resource}", f"limits.{resource}")


def _list_names(resource: str, limits: quotas.Hard) -> list[str]:
    return [name for name in _build_names(resource) if name in limits]


async def _list_pods(super_client: Client, own: TenantSide) -> list[Object]:
    selector = f"{wellknown.VC_UID}={own.tenant.uid}"
    found = await super_client.list(PODS, label_selector=selector)
    return list(found.get("items") or [])


async def _create(
    work: AuditFixture, side: TenantSide, image: str, request: QuotaRequest
) -> Object | None:
    amounts = {request.resource: request.amount}
    pod = prober.build_waiting_pod(_POD, image)
    pod["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": dict(amounts)}
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
