"""Claim of a service range: Services with its first and tenth address, made by create.

Hazard: an address is claimed only when the super cluster's allocator has assigned it to the
manager's Service. A partial claim (the tenth address is in use) is released before the next service
range is tried. It is never left behind.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import NoReturn

import structlog

from kubeio import Object, errors
from tenancy import wellknown
from tenancy.resources import SERVICES
from vcmanager.phases import validation
from vcmanager.plan import service_cidrs
from vcmanager.plan.control_plane import PlanInput
from vcmanager.plan.service_cidrs import ServiceNetwork, ServiceRange
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.object_metadata import add_metadata
from vcmanager.runtime.observed import ObservedObjects

_RETRY_SECONDS = 30.0

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def ensure_service_range(
    means: ReconcileContext, wish: PlanInput, snapshot: ObservedObjects, whole: ServiceNetwork
) -> ServiceRange:
    """Return the tenant's service range, and claim one if it has none. Raises Held."""
    own = snapshot.get("Service", service_cidrs.API_SERVICE)
    if own is not None:
        claimed = service_cidrs.read_claimed_range(own)
        if claimed is None:
            raise _build_unreadable_error(
                wish, service_cidrs.API_SERVICE, "has no annotation with its service range"
            )
        await _ensure_dns_service(means, wish, claimed, snapshot)
        return claimed
    async with means.service_range_lock:
        taken = await _fetch_taken_ranges(means, wish)
        for slice_ in _iterate_candidates(wish, whole, taken):
            if await _claim_range(means, wish, slice_):
                return slice_
            if wish.spec.service_cidr:
                _raise_taken(slice_)
    raise PhaseBlocked(
        "NoFreeSlice",
        f"The Service CIDR {whole} of the super cluster has no free service range. Delete a"
        " VirtualCluster, or add Service addresses to the super cluster.",
        needs_admin=True,
        retry_after=_RETRY_SECONDS,
    )


def _iterate_candidates(
    wish: PlanInput, whole: ServiceNetwork, taken: dict[str, ServiceNetwork]
) -> Iterable[ServiceRange]:
    try:
        if wish.spec.service_cidr:
            return [service_cidrs.parse_requested_range(wish.spec.service_cidr, whole, taken)]
        return service_cidrs.iterate_free_ranges(whole, wish.tenant.uid, taken.values())
    except service_cidrs.ServiceRangeError as problem:
        if isinstance(problem, service_cidrs.ServiceRangeTakenError):
            _log.info("service_range.taken", asked=wish.spec.service_cidr, owner=problem.owner)
        raise PhaseBlocked(
            "InvalidServiceCidr", str(problem), needs_admin=True, retry_after=_RETRY_SECONDS
        ) from problem


async def _fetch_taken_ranges(
    means: ReconcileContext, wish: PlanInput
) -> dict[str, ServiceNetwork]:
    """Return the service ranges of all other tenants, by owner."""
    page = await means.super_client.list(
        SERVICES,
        label_selector=f"{wellknown.CONTROLLED}=true,!{wellknown.NAMESPACE}",
        field_selector=f"metadata.name={service_cidrs.API_SERVICE}",
    )
    found: dict[str, ServiceNetwork] = {}
    for service in page.get("items") or ():
        claimed = service_cidrs.read_claimed_range(service)
        namespace = service["metadata"]["namespace"]
        is_other = namespace != wish.tenant.root and service_cidrs.is_in_root_namespace(service)
        if claimed is not None and is_other:
            found[namespace] = claimed.network
    return found


async def _claim_range(means: ReconcileContext, wish: PlanInput, slice_: ServiceRange) -> bool:
    """Claim all Services of a range. Return whether every address was free."""
    made: list[Object] = []
    for manifest in _build_claims(wish, slice_):
        try:
            made.append(
                await means.super_client.create(SERVICES, manifest, field_manager=wellknown.MANAGER)
            )
        except (errors.Invalid, errors.AlreadyExists) as problem:
            if isinstance(problem, errors.Invalid) and not is_address_taken(problem):
                raise
            await _release_range(means, wish, made)
            if isinstance(problem, errors.AlreadyExists):
                # The name is in use, not the address. No other range would help.
                name = manifest["metadata"]["name"]
                raise _build_unreadable_error(wish, name, "exists without a claim") from problem
            return False
    return True


async def _release_range(means: ReconcileContext, wish: PlanInput, made: Iterable[Object]) -> None:
    for each in made:
        await means.super_client.delete(
            SERVICES,
            each["metadata"]["name"],
            namespace=wish.tenant.root,
            uid=each["metadata"]["uid"],
        )


async def _ensure_dns_service(
    means: ReconcileContext, wish: PlanInput, slice_: ServiceRange, snapshot: ObservedObjects
) -> None:
    """Create the DNS Service of a claim that lacks it, for example after `dns` was changed."""
    for manifest in _build_claims(wish, slice_):
        name = manifest["metadata"]["name"]
        if snapshot.get("Service", name) is not None:
            continue
        try:
            await means.super_client.create(SERVICES, manifest, field_manager=wellknown.MANAGER)
        except errors.Invalid as problem:
            if not is_address_taken(problem):
                raise
            address = manifest["spec"]["clusterIP"]
            raise PhaseBlocked(
                "AddressTaken",
                f"The address {address} of the tenant's {name} is used by another Service of the"
                " super cluster. Delete that Service.",
                needs_admin=True,
                retry_after=_RETRY_SECONDS,
            ) from problem


def _build_claims(wish: PlanInput, slice_: ServiceRange) -> list[Object]:
    # A created field, unlike an applied one, stays when it is no longer sent.
    plan = validation.build_plan(replace(wish, is_new=False), slice_)
    return [add_metadata(manifest, wish.tenant, {}) for manifest in plan.claims]


def is_address_taken(problem: errors.Invalid) -> bool:
    """Return whether a Service is refused because its address is in use."""
    return any(cause.get("field", "").startswith("spec.clusterIP") for cause in problem.causes)


def _build_unreadable_error(wish: PlanInput, name: str, what: str) -> PhaseBlocked:
    return PhaseBlocked(
        "ClaimUnreadable",
        f"The Service {wish.tenant.root}/{name} {what}. Delete it, and vc-manager creates it again"
        " with an address of a free service range.",
        needs_admin=True,
        retry_after=_RETRY_SECONDS,
    )


def _raise_taken(slice_: ServiceRange) -> NoReturn:
    raise PhaseBlocked(
        "ServiceCidrTaken",
        f"spec.serviceCidr {slice_}: its address {slice_.api_address} or {slice_.dns_address} is"
        " used by another Service of the super cluster. Choose another range, or leave the field"
        " out.",
        needs_admin=True,
        retry_after=_RETRY_SECONDS,
    )
