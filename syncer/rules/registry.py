"""Table of the synced kinds, with one row each, for generic code.

Owns the properties of a kind as a whole. Special behaviour is named here and implemented in a small
pure module. Must not hold a client.

A plain kind is one row and one case of the integration tests. A row holds named functions.
`syncer.rbac` derives the permissions from it.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from kubeio import Object, errors
from kubeio.cache.store import Entry
from syncer.model.rejections import RejectionProblem
from syncer.model.tenant_view import TenantView
from syncer.rules import disruption_budgets, namespaces
from syncer.rules.configuration import cache_transforms, config_maps_secrets
from syncer.rules.network import endpoint_slices, ingresses, network_policies, services
from syncer.rules.network.attachments import definitions, multi_network_policies
from syncer.rules.status_ownership import StatusOwnership
from syncer.rules.storage import claim_status, claims
from tenancy.resources import (
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    INGRESSES,
    MULTI_NETWORK_POLICIES,
    NAMESPACES,
    NETWORK_ATTACHMENTS,
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

SyncFilter = Callable[[Entry, TenantView], bool]
BuildFunction = Callable[[TenantObject, TenantView], Object]
ChangeFunction = Callable[[SuperObject, Object], Object | None]
AdjustmentsFunction = Callable[[TenantObject, TenantView], Collection[RejectionProblem]]
SpecBuilder = Callable[[TenantObject, SuperObject], Object | None]
StatusBuilder = Callable[[TenantObject, SuperObject, Collection[str]], Object | None]
"""Called with the condition types that were synced back before."""


class SyncDirection(Enum):
    """Direction in which the fields of a kind are synced."""

    DOWN = auto()
    DOWN_UP = auto()


class UpdateMethod(Enum):
    """Method to change an existing super object. The UID is always in the body."""

    REPLACE = auto()
    MERGE = auto()
    OWN = auto()
    """Several narrow writes by the kind's own flow."""


class KeyReconciler(Enum):
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
    ATTACHMENT = auto()
    """`syncer.controllers.network.attachments`, because the super cluster may not serve the
    kind."""
    POD = auto()
    """`syncer.controllers.pods.pod_reconciler`."""


def always_synced(_: Entry, __: TenantView) -> bool:
    """Return True, because every object of the kind is synced."""
    return True


def keep_name(name: str) -> str:
    """Return the tenant's own name as the name of the twin."""
    return name


def never_expected(_: errors.ApiError) -> bool:
    """Return False, because no refusal is expected."""
    return False


def never_hidden(_: Mapping[str, Any]) -> bool:
    """Return False, because the watch of the kind leaves no object out."""
    return False


def never_fixed(_: SuperObject, __: Object) -> bool:
    """Return False, because every twin can be changed."""
    return False


def build_not_generic(_: TenantObject, __: TenantView) -> Object:
    """Raise NotImplementedError, because the kind's own reconciler builds the twin."""
    raise NotImplementedError("the kind's own reconciler builds the twin")


def change_not_generic(_: SuperObject, __: Object) -> Object | None:
    """Raise NotImplementedError, because the kind's own reconciler changes the twin."""
    raise NotImplementedError("the kind's own reconciler changes the twin")


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncedKind:
    """One synced kind."""

    resource: Resource
    direction: SyncDirection
    update_method: UpdateMethod
    reconciler: KeyReconciler = KeyReconciler.PLAIN
    build: BuildFunction = build_not_generic
    """Return the twin of a tenant object. Raises RejectedError."""
    change: ChangeFunction = change_not_generic
    """Return the body that updates a live twin, or None if it is up to date."""
    find_adjustments: AdjustmentsFunction | None = None
    """Return the parts of a tenant object that its twin does not have, for an Event."""
    is_fixed: Callable[[SuperObject, Object], bool] = never_fixed
    """Return whether a live twin cannot be changed any longer and must be recreated."""
    is_wanted: SyncFilter = always_synced
    """Return whether a tenant object is synced."""
    super_name: Callable[[str], str] = keep_name
    tenant_name: Callable[[str], str] = keep_name
    """Return the tenant's name for the name of a twin."""
    tenant_labels: str = ""
    tenant_fields: str = ""
    """Selectors of the watch in the tenant. The syncer never sees other objects."""
    is_hidden: Callable[[Mapping[str, Any]], bool] = never_hidden
    """Return whether the watch leaves out a live object with this metadata. The metadata may
    change."""
    reduce: Callable[[Entry], Entry] | None = None
    """Return the part of an object that the caches keep. None if they keep all of it."""
    has_grace_period: bool = True
    """A twin that is no longer wanted stays for a while, and as long as a super pod names it."""
    deletes_with_mark: bool = True
    """The twin is deleted when the tenant object is marked for deletion, whatever finalizers hold
    that object."""
    status_owner: StatusOwnership | None = None
    """Parts of the status that the super cluster owns. None: those of the table STATUS_OWNERS."""
    list_references: Callable[[TenantObject], Collection[tuple[str, str, str]]] | None = None
    """Return kind, tenant namespace and name of the ConfigMaps and Secrets that an object names.
    For kinds of SyncRules."""
    list_awaited: Callable[[TenantObject], Collection[tuple[str, str, str]]] | None = None
    """Return field, tenant namespace and name of the claims that must be synced before an object.
    For kinds of SyncRules."""
    show_status: Callable[[TenantObject, Mapping[str, Any]], Object] | None = None
    """Return a super object with the parts of its status that the tenant sees, and with the
    tenant's namespaces in its references. For kinds of SyncRules."""
    build_spec_up: SpecBuilder | None = None
    build_status_up: StatusBuilder | None = None
    is_expected: Callable[[errors.ApiError], bool] = never_expected
    """Return whether the kind's own flow handles a refusal of a create."""
    is_in_targets: bool = False
    """Pods use the kind in whatever super cluster they run. Other kinds exist in the home cluster
    only."""
    needs_crd: bool = False
    """The kind comes with a CRD. It is synced where both servers have it, if the chart enables
    additional networks."""
    reports_wait: bool = False
    """The tenant gets an Event while the old twin of a recreated object is being deleted."""


def _build_config_map_change(live: SuperObject, twin: Object) -> Object | None:
    return config_maps_secrets.build_replacement(live, twin, "ConfigMap")


def _build_secret_change(live: SuperObject, twin: Object) -> Object | None:
    return config_maps_secrets.build_replacement(live, twin, "Secret")


KINDS: tuple[SyncedKind, ...] = (
    SyncedKind(
        resource=NAMESPACES,
        direction=SyncDirection.DOWN,
        update_method=UpdateMethod.MERGE,
        reconciler=KeyReconciler.NAMESPACE,
        build=namespaces.build_namespace,
        change=namespaces.build_patch,
        deletes_with_mark=False,
        is_in_targets=True,
        reports_wait=True,
    ),
    SyncedKind(
        resource=PODS,
        direction=SyncDirection.DOWN_UP,
        update_method=UpdateMethod.OWN,
        reconciler=KeyReconciler.POD,
        is_in_targets=True,
    ),
    SyncedKind(
        resource=CONFIG_MAPS,
        direction=SyncDirection.DOWN,
        update_method=UpdateMethod.REPLACE,
        build=config_maps_secrets.build_config_map,
        change=_build_config_map_change,
        is_fixed=config_maps_secrets.is_fixed,
        is_wanted=config_maps_secrets.is_config_map_wanted,
        reduce=cache_transforms.reduce_entry,
        super_name=config_maps_secrets.build_super_name,
        tenant_name=config_maps_secrets.build_tenant_name,
        is_in_targets=True,
    ),
    SyncedKind(
        resource=SECRETS,
        direction=SyncDirection.DOWN,
        update_method=UpdateMethod.REPLACE,
        build=config_maps_secrets.build_secret,
        change=_build_secret_change,
        is_fixed=config_maps_secrets.is_fixed,
        is_wanted=config_maps_secrets.is_secret_wanted,
        reduce=cache_transforms.reduce_entry,
        tenant_fields=config_maps_secrets.WATCHED_SECRETS_SELECTOR,
        is_in_targets=True,
    ),
    SyncedKind(
        resource=SERVICES,
        direction=SyncDirection.DOWN_UP,
        update_method=UpdateMethod.MERGE,
        reconciler=KeyReconciler.SERVICE,
        build=services.build_service,
        change=services.build_patch,
        find_adjustments=services.find_adjustments,
        is_wanted=services.is_wanted,
        is_expected=services.is_allocation_refusal,
        build_spec_up=services.build_ports_up,
        build_status_up=services.build_status_up,
    ),
    SyncedKind(
        resource=PERSISTENT_VOLUME_CLAIMS,
        direction=SyncDirection.DOWN_UP,
        update_method=UpdateMethod.MERGE,
        reconciler=KeyReconciler.CLAIM,
        build=claims.build_claim,
        change=claims.build_patch,
        build_spec_up=claim_status.build_volume_up,
        build_status_up=claim_status.build_status_up,
    ),
    SyncedKind(
        resource=ENDPOINT_SLICES,
        direction=SyncDirection.DOWN,
        update_method=UpdateMethod.REPLACE,
        build=endpoint_slices.build_endpoint_slice,
        change=endpoint_slices.build_change,
        find_adjustments=endpoint_slices.find_adjustments,
        is_wanted=endpoint_slices.is_wanted,
        tenant_labels=endpoint_slices.WATCHED_SELECTOR,
        is_hidden=endpoint_slices.is_hidden,
        has_grace_period=False,
    ),
    SyncedKind(
        resource=INGRESSES,
        direction=SyncDirection.DOWN_UP,
        update_method=UpdateMethod.REPLACE,
        build=ingresses.build_ingress,
        change=ingresses.build_change,
        build_status_up=ingresses.build_status_up,
    ),
    SyncedKind(
        resource=NETWORK_POLICIES,
        direction=SyncDirection.DOWN,
        update_method=UpdateMethod.REPLACE,
        build=network_policies.build_network_policy,
        change=network_policies.build_change,
        is_in_targets=True,
    ),
    SyncedKind(
        resource=POD_DISRUPTION_BUDGETS,
        direction=SyncDirection.DOWN,
        update_method=UpdateMethod.REPLACE,
        reconciler=KeyReconciler.BUDGET,
        build=disruption_budgets.build_disruption_budget,
        change=disruption_budgets.build_change,
        is_wanted=disruption_budgets.is_wanted,
        has_grace_period=False,
        is_in_targets=True,
    ),
)

NETWORK_KINDS: tuple[SyncedKind, ...] = (
    SyncedKind(
        resource=NETWORK_ATTACHMENTS,
        direction=SyncDirection.DOWN,
        update_method=UpdateMethod.REPLACE,
        reconciler=KeyReconciler.ATTACHMENT,
        build=definitions.build_definition,
        change=definitions.build_change,
        has_grace_period=False,
        needs_crd=True,
    ),
    SyncedKind(
        resource=MULTI_NETWORK_POLICIES,
        direction=SyncDirection.DOWN,
        update_method=UpdateMethod.REPLACE,
        reconciler=KeyReconciler.ATTACHMENT,
        build=multi_network_policies.build_policy,
        change=multi_network_policies.build_change,
        has_grace_period=False,
        needs_crd=True,
    ),
)
"""Kinds of additional networks. They are synced if the chart enables them."""

KINDS_BY_NAME: Mapping[str, SyncedKind] = {kind.resource.kind: kind for kind in KINDS}
ALL_KINDS_BY_NAME: Mapping[str, SyncedKind] = {
    kind.resource.kind: kind for kind in (*KINDS, *NETWORK_KINDS)
}


def select_kinds(*, networks: bool) -> Mapping[str, SyncedKind]:
    """Return the kinds that a syncer syncs. `networks`: additional networks are enabled."""
    return ALL_KINDS_BY_NAME if networks else KINDS_BY_NAME


def get_reduction(kind: str) -> Callable[[Entry], Entry] | None:
    """Return the function that reduces objects of a kind for the caches. None if they keep all."""
    return KINDS_BY_NAME[kind].reduce if kind in KINDS_BY_NAME else None
