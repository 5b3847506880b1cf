"""Table of the synced kinds, with one row each, for generic code.

Owns the properties of a kind as a whole. Special behaviour is named here and implemented in a small
pure module. Must not hold a client.

A plain kind is one row and one case of the integration tests. A row holds named functions.
`syncer.rbac` derives the permissions from it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from kubeio import Object, errors
from kubeio.cache.store import Entry
from syncer.model.tenant_view import TenantView
from syncer.rules import disruption_budgets, namespaces
from syncer.rules.configuration import cache_transforms, config_maps_secrets
from syncer.rules.network import endpoint_slices, ingresses, network_policies, services
from syncer.rules.storage import claim_status, claims
from tenancy.resources import (
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    INGRESSES,
    NAMESPACES,
    NETWORK_POLICIES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SECRETS,
    SERVICES,
    Resource,
)

TenantObject = Mapping[str, Any]
SuperObject = Mapping[str, Any]

Wants = Callable[[Entry, TenantView], bool]
Build = Callable[[TenantObject, TenantView], Object]
Change = Callable[[SuperObject, Object], Object | None]
Up = Callable[[TenantObject, SuperObject], Object | None]


class Flow(Enum):
    """Direction in which the fields of a kind are synced."""

    DOWN = auto()
    DOWN_UP = auto()


class Method(Enum):
    """Method to change an existing super object. The UID is always in the body."""

    REPLACE = auto()
    MERGE = auto()
    OWN = auto()
    """Several narrow writes by the kind's own flow."""


class Life(Enum):
    """Controller that reconciles keys of this kind."""

    PLAIN = auto()
    """`syncer.controllers.sync_down`, by this row alone."""
    NAMESPACE = auto()
    """`syncer.controllers.sync_down`, followed by the account of the super namespace."""
    SERVICE = auto()
    """`syncer.controllers.network.services`, because IPs and node ports may be refused."""
    CLAIM = auto()
    """`syncer.controllers.storage.claims`, because a claim's source must be the tenant's, too."""
    BUDGET = auto()
    """`syncer.controllers.disruption_budgets`, which waits before it allows more evictions."""
    POD = auto()
    """`syncer.controllers.pods.pod_reconciler`."""


def always(_: Entry, __: TenantView) -> bool:
    """Return True, because every object of the kind is synced."""
    return True


def same_name(name: str) -> str:
    """Return the tenant's own name as the name of the twin."""
    return name


def never(_: errors.ApiError) -> bool:
    """Return False, because no refusal is expected."""
    return False


def never_hidden(_: Mapping[str, Any]) -> bool:
    """Return False, because the watch of the kind leaves no object out."""
    return False


def never_fixed(_: SuperObject, __: Object) -> bool:
    """Return False, because every twin can be changed."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One synced kind."""

    resource: Resource
    flow: Flow
    method: Method
    life: Life = Life.PLAIN
    build: Build | None = None
    """Return the twin of a tenant object. Raises RejectedError."""
    change: Change | None = None
    """Return the body that updates a live twin, or None if it is up to date."""
    is_fixed: Callable[[SuperObject, Object], bool] = never_fixed
    """Return whether a live twin cannot be changed any longer and must be recreated."""
    wants: Wants = always
    """Return whether a tenant object is synced."""
    super_name: Callable[[str], str] = same_name
    tenant_name: Callable[[str], str] = same_name
    """Return the tenant's name for the name of a twin."""
    tenant_labels: str = ""
    tenant_fields: str = ""
    """Selectors of the watch in the tenant. The syncer never sees other objects."""
    is_hidden: Callable[[Mapping[str, Any]], bool] = never_hidden
    """Return whether the watch leaves out a live object with this metadata. The metadata may
    change."""
    reduce: Callable[[Entry], Entry] | None = None
    """Return the part of an object that the caches keep. None if they keep all of it."""
    lingers: bool = True
    """A twin that is no longer wanted stays for a while, and as long as a super pod names it."""
    follows_mark: bool = True
    """The twin is deleted when the tenant object is marked for deletion, whatever finalizers hold
    that object."""
    up_spec: Up | None = None
    up_status: Up | None = None
    is_expected: Callable[[errors.ApiError], bool] = never
    """Return whether the kind's own flow handles a refusal of a create."""
    at_targets: bool = False
    """Pods use the kind in whatever super cluster they run. Other kinds exist in the home cluster
    only."""
    waits_visibly: bool = False
    """The tenant gets an Event while the old twin of a recreated object is being deleted."""


def _config_map_change(live: SuperObject, twin: Object) -> Object | None:
    return config_maps_secrets.replacement(live, twin, "ConfigMap")


def _secret_change(live: SuperObject, twin: Object) -> Object | None:
    return config_maps_secrets.replacement(live, twin, "Secret")


KINDS: tuple[Kind, ...] = (
    Kind(
        resource=NAMESPACES,
        flow=Flow.DOWN,
        method=Method.MERGE,
        life=Life.NAMESPACE,
        build=namespaces.namespace,
        change=namespaces.patch,
        follows_mark=False,
        at_targets=True,
        waits_visibly=True,
    ),
    Kind(resource=PODS, flow=Flow.DOWN_UP, method=Method.OWN, life=Life.POD, at_targets=True),
    Kind(
        resource=CONFIG_MAPS,
        flow=Flow.DOWN,
        method=Method.REPLACE,
        build=config_maps_secrets.config_map,
        change=_config_map_change,
        is_fixed=config_maps_secrets.is_fixed,
        wants=config_maps_secrets.wants_config_map,
        reduce=cache_transforms.reduce,
        super_name=config_maps_secrets.super_name,
        tenant_name=config_maps_secrets.tenant_name,
        at_targets=True,
    ),
    Kind(
        resource=SECRETS,
        flow=Flow.DOWN,
        method=Method.REPLACE,
        build=config_maps_secrets.secret,
        change=_secret_change,
        is_fixed=config_maps_secrets.is_fixed,
        wants=config_maps_secrets.wants_secret,
        reduce=cache_transforms.reduce,
        tenant_fields=config_maps_secrets.WATCHED_SECRETS,
        at_targets=True,
    ),
    Kind(
        resource=SERVICES,
        flow=Flow.DOWN_UP,
        method=Method.MERGE,
        life=Life.SERVICE,
        build=services.service,
        change=services.patch,
        wants=services.wants,
        is_expected=services.is_allocation,
        up_spec=services.ports_up,
        up_status=services.status_up,
    ),
    Kind(
        resource=PERSISTENT_VOLUME_CLAIMS,
        flow=Flow.DOWN_UP,
        method=Method.MERGE,
        life=Life.CLAIM,
        build=claims.claim,
        change=claims.patch,
        up_spec=claim_status.volume_up,
        up_status=claim_status.status_up,
    ),
    Kind(
        resource=ENDPOINT_SLICES,
        flow=Flow.DOWN,
        method=Method.REPLACE,
        build=endpoint_slices.endpoint_slice,
        change=endpoint_slices.change,
        wants=endpoint_slices.wants,
        tenant_labels=endpoint_slices.WATCHED,
        is_hidden=endpoint_slices.is_hidden,
        lingers=False,
    ),
    Kind(
        resource=INGRESSES,
        flow=Flow.DOWN_UP,
        method=Method.REPLACE,
        build=ingresses.ingress,
        change=ingresses.change,
        up_status=ingresses.status_up,
    ),
    Kind(
        resource=NETWORK_POLICIES,
        flow=Flow.DOWN,
        method=Method.REPLACE,
        build=network_policies.network_policy,
        change=network_policies.change,
        at_targets=True,
    ),
    Kind(
        resource=POD_DISRUPTION_BUDGETS,
        flow=Flow.DOWN,
        method=Method.REPLACE,
        life=Life.BUDGET,
        build=disruption_budgets.disruption_budget,
        change=disruption_budgets.change,
        wants=disruption_budgets.wants,
        lingers=False,
        at_targets=True,
    ),
)

BY_NAME: Mapping[str, Kind] = {kind.resource.kind: kind for kind in KINDS}


def reduction_of(kind: str) -> Callable[[Entry], Entry] | None:
    """Return the function that reduces objects of a kind for the caches. None if they keep all."""
    return BY_NAME[kind].reduce if kind in BY_NAME else None
