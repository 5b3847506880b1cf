"""The table of synced kinds: one row each, read by generic code.

Owns what is true of a kind as a whole; what is special about it is named here and stands in a small
pure file. Must not hold a client. Rules: a plain kind is one row and one case of the integration
tests; a row holds functions that have names; what a row needs from the API servers, `syncer.rbac`
derives from it.
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
    """Which way the fields of a kind go."""

    DOWN = auto()
    DOWN_UP = auto()


class Method(Enum):
    """How an existing super object is changed; the UID is always in the body."""

    REPLACE = auto()
    MERGE = auto()
    OWN = auto()
    """By several narrow writes of a flow of its own."""


class Life(Enum):
    """Who runs a key of this kind."""

    PLAIN = auto()
    """`syncer.controllers.sync_down`, by this row alone."""
    NAMESPACE = auto()
    """`syncer.controllers.sync_down`, and then the account of the super namespace."""
    SERVICE = auto()
    """`syncer.controllers.network.services`: IPs and node ports may be refused."""
    CLAIM = auto()
    """`syncer.controllers.storage.claims`: the source of a claim must be the tenant's, too."""
    BUDGET = auto()
    """`syncer.controllers.disruption_budgets`: patient before it lets more pods go."""
    POD = auto()
    """`syncer.controllers.pods.pod_reconciler`."""


def always(_: Entry, __: TenantView) -> bool:
    """Every object of the kind takes part."""
    return True


def same_name(name: str) -> str:
    """Return the name of the twin: the tenant's own."""
    return name


def never(_: errors.ApiError) -> bool:
    """No refusal is expected."""
    return False


def never_hidden(_: Mapping[str, Any]) -> bool:
    """Return False: the watch of the kind leaves no object out."""
    return False


def never_fixed(_: SuperObject, __: Object) -> bool:
    """Every twin can be changed."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One synced kind."""

    resource: Resource
    flow: Flow
    method: Method
    life: Life = Life.PLAIN
    build: Build | None = None
    """The twin of a tenant object; raises RejectedError."""
    change: Change | None = None
    """The body that makes a live twin what it should be; None when it is."""
    is_fixed: Callable[[SuperObject, Object], bool] = never_fixed
    """Whether a live twin can't be changed any more and has to be made anew."""
    wants: Wants = always
    """Which tenant objects take part."""
    super_name: Callable[[str], str] = same_name
    tenant_name: Callable[[str], str] = same_name
    """The way back from the name of a twin."""
    tenant_labels: str = ""
    tenant_fields: str = ""
    """Selectors of the watch in the tenant: what they leave out is never seen."""
    is_hidden: Callable[[Mapping[str, Any]], bool] = never_hidden
    """Whether the watch leaves out a live object with this metadata, that may change."""
    reduce: Callable[[Entry], Entry] | None = None
    """What the caches keep of an object, where that is not all of it."""
    lingers: bool = True
    """A twin that is not wanted any more stays a while, and while a super pod names it."""
    follows_mark: bool = True
    """The twin goes when the tenant object is marked, whatever finalizers hold that."""
    up_spec: Up | None = None
    up_status: Up | None = None
    is_expected: Callable[[errors.ApiError], bool] = never
    """Refusals of a create that the kind's own flow deals with."""
    at_targets: bool = False
    """A pod has it where it runs, in whatever super cluster; the others are at home alone."""
    waits_visibly: bool = False
    """The tenant is told while the old twin of a re-created object goes."""


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
    """Return what caches keep of the objects of a kind; None: all."""
    return BY_NAME[kind].reduce if kind in BY_NAME else None
