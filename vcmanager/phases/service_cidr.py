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
from vcmanager.plan.control_plane import Wish
from vcmanager.plan.service_cidrs import Network, Slice
from vcmanager.runtime.blocked import Held
from vcmanager.runtime.context import Means
from vcmanager.runtime.object_metadata import marked
from vcmanager.runtime.observed import Snapshot

_RETRY = 30.0

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def act(means: Means, wish: Wish, snapshot: Snapshot, whole: Network) -> Slice:
    """Return the tenant's service range, and claim one if it has none. Raises Held."""
    own = snapshot.get("Service", service_cidrs.API_SERVICE)
    if own is not None:
        claimed = service_cidrs.claimed_by(own)
        if claimed is None:
            raise _unreadable(wish, service_cidrs.API_SERVICE, "does not say which slice it claims")
        await _complete(means, wish, claimed, snapshot)
        return claimed
    async with means.claiming:
        taken = await _fetch_taken(means, wish)
        for slice_ in _choices(wish, whole, taken):
            if await _claim(means, wish, slice_):
                return slice_
            if wish.spec.service_cidr:
                _refuse_taken(slice_)
    raise Held(
        "NoFreeSlice",
        f"every slice of the super cluster's service range {whole} is taken; delete a"
        " VirtualCluster, or add service addresses to the super cluster",
        needs_person=True,
        again_after=_RETRY,
    )


def _choices(wish: Wish, whole: Network, taken: dict[str, Network]) -> Iterable[Slice]:
    try:
        if wish.spec.service_cidr:
            return [service_cidrs.asked_for(wish.spec.service_cidr, whole, taken)]
        return service_cidrs.candidates(whole, wish.tenant.uid, taken.values())
    except service_cidrs.SliceProblemError as problem:
        if isinstance(problem, service_cidrs.SliceTakenError):
            _log.info("slice.taken", asked=wish.spec.service_cidr, owner=problem.owner)
        raise Held(
            "InvalidServiceCidr", str(problem), needs_person=True, again_after=_RETRY
        ) from problem


async def _fetch_taken(means: Means, wish: Wish) -> dict[str, Network]:
    """Return the service ranges of all other tenants, by owner."""
    page = await means.super_client.list(
        SERVICES,
        label_selector=f"{wellknown.CONTROLLED}=true,!{wellknown.NAMESPACE}",
        field_selector=f"metadata.name={service_cidrs.API_SERVICE}",
    )
    found: dict[str, Network] = {}
    for service in page.get("items") or ():
        claimed = service_cidrs.claimed_by(service)
        namespace = service["metadata"]["namespace"]
        is_other = namespace != wish.tenant.root and service_cidrs.is_in_root(service)
        if claimed is not None and is_other:
            found[namespace] = claimed.network
    return found


async def _claim(means: Means, wish: Wish, slice_: Slice) -> bool:
    """Claim all Services of a range. Return whether every address was free."""
    made: list[Object] = []
    for manifest in _claims(wish, slice_):
        try:
            made.append(
                await means.super_client.create(SERVICES, manifest, field_manager=wellknown.MANAGER)
            )
        except (errors.Invalid, errors.AlreadyExists) as problem:
            if isinstance(problem, errors.Invalid) and not is_address_taken(problem):
                raise
            await _give_back(means, wish, made)
            if isinstance(problem, errors.AlreadyExists):
                # The name is in use, not the address. No other range would help.
                name = manifest["metadata"]["name"]
                raise _unreadable(wish, name, "is there without a claim") from problem
            return False
    return True


async def _give_back(means: Means, wish: Wish, made: Iterable[Object]) -> None:
    for each in made:
        await means.super_client.delete(
            SERVICES,
            each["metadata"]["name"],
            namespace=wish.tenant.root,
            uid=each["metadata"]["uid"],
        )


async def _complete(means: Means, wish: Wish, slice_: Slice, snapshot: Snapshot) -> None:
    """Create the DNS Service of a claim that lacks it, for example after `dns` was changed."""
    for manifest in _claims(wish, slice_):
        name = manifest["metadata"]["name"]
        if snapshot.get("Service", name) is not None:
            continue
        try:
            await means.super_client.create(SERVICES, manifest, field_manager=wellknown.MANAGER)
        except errors.Invalid as problem:
            if not is_address_taken(problem):
                raise
            address = manifest["spec"]["clusterIP"]
            raise Held(
                "AddressTaken",
                f"the address {address} of the tenant's {name} is taken by another Service of the"
                " super cluster; delete that Service",
                needs_person=True,
                again_after=_RETRY,
            ) from problem


def _claims(wish: Wish, slice_: Slice) -> list[Object]:
    # A created field, unlike an applied one, stays when it is no longer sent.
    plan = validation.plan(replace(wish, is_new=False), slice_)
    return [marked(manifest, wish.tenant, {}) for manifest in plan.claims]


def is_address_taken(problem: errors.Invalid) -> bool:
    """Return whether a Service is refused because its address is in use."""
    return any(cause.get("field", "").startswith("spec.clusterIP") for cause in problem.causes)


def _unreadable(wish: Wish, name: str, what: str) -> Held:
    return Held(
        "ClaimUnreadable",
        f"the Service {wish.tenant.root}/{name} {what}; delete it, and it is made anew with an"
        " address of a free slice",
        needs_person=True,
        again_after=_RETRY,
    )


def _refuse_taken(slice_: Slice) -> NoReturn:
    raise Held(
        "ServiceCidrTaken",
        f"spec.serviceCidr {slice_}: its address {slice_.api} or {slice_.dns} is taken by another"
        " Service of the super cluster; choose another range, or leave the field out",
        needs_person=True,
        again_after=_RETRY,
    )
