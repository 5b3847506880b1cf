"""The faults that are planted in the product. The tests must find each of them.

Owns the list of faults. Each replaces one part of the product for the length of a block. The rest
of the product runs unchanged.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from unittest import mock

from kubeio import errors
from kubeio.api.client import Client
from kubeio.api.leader_election import LeaderElector
from kubeio.cache.store import Store
from kubeio.controller.worker import Done, Worker
from syncer.clusters.super_cluster import SuperCluster
from syncer.controllers import adoption, mirrors, sync_down, sync_up
from syncer.controllers.pods import pod_reconciler, tokens
from syncer.controllers.storage import volumes
from syncer.handlers.resync import Resync
from syncer.lifecycle import inactive_tenants, tenant_manager
from syncer.lifecycle.tenant_manager import TenantManager
from syncer.model import decide, label_selectors, object_meta
from syncer.model.decide import CompareTwin, SyncAction
from syncer.rules import disruption_budgets, registry
from syncer.rules.nodes import virtual_nodes
from syncer.rules.pods import token_specs
from syncer.safety import store_guard
from syncer.safety.proven_deletes import ProvenDeletes
from syncer.tenants.connection import TenantConnection
from syncer.tenants.sanitizer import Sanitizer
from syncer.tenants.session_work import SessionWork
from tenancy.resources import (
    ENDPOINT_SLICES,
    INGRESSES,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    Resource,
)
from vcmanager.reconcilers import orphan_sweep

PlantedFault = Callable[[contextlib.ExitStack], None]


def _put(stack: contextlib.ExitStack, holder: Any, name: str, value: Any) -> None:
    stack.callback(setattr, holder, name, getattr(holder, name))
    setattr(holder, name, value)


async def _nothing(*_: Any, **__: Any) -> None:
    """Do nothing."""


async def _no_keys(*_: Any) -> int:
    return 0


async def _done(*_: Any, **__: Any) -> Done:
    return Done()


def no_uid_in_deletes(stack: contextlib.ExitStack) -> None:
    """Deletes carry no precondition."""
    delete = Client.delete

    async def mutant(self: Client, *args: Any, **options: Any) -> Any:
        return await delete(self, *args, **{**options, "uid": "", "resource_version": ""})

    _put(stack, Client, "delete", mutant)


def no_store_guard(stack: contextlib.ExitStack) -> None:
    """Every store passes for the earlier one."""
    _put(stack, store_guard, "find_store_problem", lambda *_: None)


def stale_store_record_wins(stack: contextlib.ExitStack) -> None:
    """A store record that arrives late replaces a newer one."""
    patch = Client.patch

    async def mutant(self: Client, resource: Resource, name: str, body: Any, **options: Any) -> Any:
        if resource is NAMESPACES and isinstance(body, dict):
            metadata = {k: v for k, v in body["metadata"].items() if k != "resourceVersion"}
            body = {**body, "metadata": metadata}
        return await patch(self, resource, name, body, **options)

    _put(stack, Client, "patch", mutant)


def absence_without_proof(stack: contextlib.ExitStack) -> None:
    """Incomplete caches are used, and an object that they lack counts as deleted."""
    _put(stack, TenantConnection, "_wait_first_lists", _nothing)
    _put(stack, ProvenDeletes, "_needs_proof", lambda *_: False)


def cached_absence_is_proof(stack: contextlib.ExitStack) -> None:
    """An object that a cache lacks is deleted without a live read."""
    _put(stack, ProvenDeletes, "_needs_proof", lambda *_: False)


def orphans_are_ignored(stack: contextlib.ExitStack) -> None:
    """A starting syncer does not read the super cluster's objects."""
    _put(stack, SuperCluster, "iterate_owned", lambda *_: ())


def no_read_after_a_lost_response(stack: contextlib.ExitStack) -> None:
    """An existing name counts as a foreign object, without a live read."""

    async def mutant(kind: Any, pair: Any, _: Any, session: Any) -> Any:
        return await sync_down.report_name_taken(kind, pair, session)

    _put(stack, sync_down, "resolve_name_conflict", mutant)


def name_proves_a_twin(stack: contextlib.ExitStack) -> None:
    """A super object is the twin of any tenant object of its name."""

    def mutant(_: SuperCluster, entry: Any, *, vc_uid: str, uid: str) -> bool:
        side = decide.build_super_state(entry)
        return side is not None and side.vc_uid == vc_uid and bool(uid)

    _put(stack, SuperCluster, "is_twin", mutant)


def pod_status_is_not_synced_back(stack: contextlib.ExitStack) -> None:
    """Statuses are not synced back to the tenant."""
    _put(stack, sync_up, "write_tenant_object", _nothing)


def foreign_objects_are_adopted(stack: contextlib.ExitStack) -> None:
    """Any object of the right name is adopted."""
    put_labels_back = adoption.restore_labels

    async def mutant(kind: Any, pair: Any, twin: Any, session: Any) -> Any:
        metadata = twin["metadata"]
        live = await session.super_client.get(
            kind.resource, metadata["name"], namespace=metadata.get("namespace", "")
        )
        await put_labels_back(kind, live["metadata"], session)
        return Done()

    _put(stack, sync_down, "resolve_name_conflict", mutant)


def relists_delete_nothing(stack: contextlib.ExitStack) -> None:
    """An object that a new list lacks stays in the cache."""
    _put(stack, Store, "retain", lambda *_: None)


def vanished_twin_is_not_read_live(stack: contextlib.ExitStack) -> None:
    """A twin that the cache lacks counts as deleted."""
    _put(stack, pod_reconciler, "_prove_twin_absent", _nothing)


def failed_keys_are_dropped(stack: contextlib.ExitStack) -> None:
    """A failed key is not tried again, and no resync finds it."""
    _put(stack, Resync, "resync_session", _no_keys)
    _put(stack, Worker, "_requeue_with_backoff", lambda *_, **__: 0.0)
    _put(stack, Worker, "_handle_conflict", lambda *_: "conflict")


def terminating_namespace_loses_its_twin(stack: contextlib.ExitStack) -> None:
    """A terminating namespace loses its twin at once."""
    original = decide.decide

    def mutant(*args: Any, **options: Any) -> SyncAction:
        return original(*args, **{**options, "follows_mark": True})

    _put(stack, decide, "decide", mutant)


def changes_are_not_synced(stack: contextlib.ExitStack) -> None:
    """A twin stays as it was created."""
    original = decide.decide

    def mutant(*args: Any, **options: Any) -> SyncAction:
        found = original(*args, **options)
        return decide.NO_ACTION if isinstance(found, CompareTwin) else found

    _put(stack, decide, "decide", mutant)


def uid_mismatch_is_a_rejection(stack: contextlib.ExitStack) -> None:
    """A UID mismatch is reported as an error of the tenant."""
    _put(stack, errors, "_is_uid_mismatch", lambda _: False)


def twin_without_labels_is_not_found(stack: contextlib.ExitStack) -> None:
    """A twin that vanished from the cache is not searched for unless a pod needs it."""
    _put(stack, adoption, "find_vanished_twin", _nothing)


def caches_survive_a_store_change(stack: contextlib.ExitStack) -> None:
    """While deletes are held, watches continue at revisions of another store."""
    _put(stack, TenantConnection, "_relist", lambda _: None)


def frozen_replica_keeps_writing(stack: contextlib.ExitStack) -> None:
    """Writes do not check the time of the Lease."""
    _put(stack, LeaderElector, "check_fence", lambda _: None)


def tenants_are_never_disconnected(stack: contextlib.ExitStack) -> None:
    """A session continues after its inputs have changed."""

    async def mutant(*_: Any) -> None:
        await asyncio.Event().wait()

    _put(stack, TenantManager, "_wait_until_changed", mutant)


def tenants_are_released_too_early(stack: contextlib.ExitStack) -> None:
    """Running reconciles continue after the session is reported as drained."""

    async def mutant(self: SessionWork) -> None:
        self.stop()
        self._queue.drop_group(self.group)

    _put(stack, SessionWork, "drain", mutant)


def earlier_namespace_is_reused(stack: contextlib.ExitStack) -> None:
    """A recreated namespace continues with the objects of its predecessor."""
    original = decide.decide

    def mutant(tenant_x: Any, super_x: Any, **options: Any) -> SyncAction:
        is_space = not options.get("follows_mark", True)
        if is_space and tenant_x is not None and super_x is not None:
            super_x = super_x._replace(uid=tenant_x.uid)
        return original(tenant_x, super_x, **options)

    _put(stack, decide, "decide", mutant)


def _changed_row(stack: contextlib.ExitStack, resource: Resource, **fields: Any) -> None:
    row = replace(registry.KINDS_BY_NAME[resource.kind], **fields)
    stack.enter_context(mock.patch.dict(registry.KINDS_BY_NAME, {resource.kind: row}))  # type: ignore[arg-type]


def claim_volume_is_not_synced_back(stack: contextlib.ExitStack) -> None:
    """A claim's volume is not synced back to the tenant."""
    _changed_row(stack, PERSISTENT_VOLUME_CLAIMS, build_spec_up=None)


def shown_volumes_are_not_deleted(stack: contextlib.ExitStack) -> None:
    """A shown volume is never deleted in the tenant."""
    _put(stack, volumes, "_delete_shown_volume", _done)


def ingress_address_is_not_synced_back(stack: contextlib.ExitStack) -> None:
    """The address of an Ingress is not synced back to the tenant."""
    _changed_row(stack, INGRESSES, build_status_up=None)


def budgets_are_not_lowered(stack: contextlib.ExitStack) -> None:
    """A budget requires the same number of pods on both sides, whatever it covers."""
    _put(stack, disruption_budgets, "_lower_by_one", lambda wanted, _: wanted)


def policies_select_every_namespace(stack: contextlib.ExitStack) -> None:
    """The namespace selector of a network policy is ignored."""
    _put(stack, label_selectors, "matches", lambda *_: True)


def manual_slices_are_not_synced(stack: contextlib.ExitStack) -> None:
    """EndpointSlices of a person are not synced to the super cluster."""
    _changed_row(stack, ENDPOINT_SLICES, is_wanted=lambda *_: False)


def tokens_are_not_renewed(stack: contextlib.ExitStack) -> None:
    """A token is kept for its requested lifetime."""
    _put(stack, token_specs, "compute_seconds_to_renewal", lambda *_: 7200.0)


def unneeded_tokens_stay(stack: contextlib.ExitStack) -> None:
    """A token is kept after the last pod that needs it."""
    _put(stack, tokens, "_delete_token", _nothing)


def withdrawn_classes_stay(stack: contextlib.ExitStack) -> None:
    """A class stays in the tenant after the policy stops offering it."""
    _put(stack, mirrors, "delete_mirror", _done)


def node_changes_are_not_shown(stack: contextlib.ExitStack) -> None:
    """A changed node stays in the tenant as it was."""
    _put(stack, virtual_nodes, "is_node_current", lambda *_: True)


def events_keep_super_names(stack: contextlib.ExitStack) -> None:
    """Messages for the tenant keep the names of the super cluster."""
    _put(stack, object_meta, "replace_names", lambda text, _: text)
    _put(stack, Sanitizer, "sanitize_text", lambda _, text, **__: text)


def orphan_sweep_runs_too_early(stack: contextlib.ExitStack) -> None:
    """The sweep of a deleted tenant runs before its last requests arrive."""
    _put(stack, orphan_sweep, "ORPHAN_DELAY_SECONDS", 0.5)


def sleeping_tenants_are_followed(stack: contextlib.ExitStack) -> None:
    """A tenant that sleeps stays connected."""
    _put(stack, tenant_manager, "find_inactivity", lambda _: None)


def sleeping_pods_run_on(stack: contextlib.ExitStack) -> None:
    """The pods of a tenant that is to run none stay."""

    async def never(*_: Any) -> float:
        return 60.0

    _put(stack, tenant_manager, "stop_pods", never)


def sleep_stops_kept_pods(stack: contextlib.ExitStack) -> None:
    """A sleep that keeps the pods ends them."""
    _put(stack, inactive_tenants, "_ASLEEP", inactive_tenants._ASLEEP_WITHOUT_PODS)


MUTANTS: Mapping[str, PlantedFault] = {
    mutant.__name__: mutant
    for mutant in (
        no_uid_in_deletes,
        no_store_guard,
        stale_store_record_wins,
        absence_without_proof,
        cached_absence_is_proof,
        orphans_are_ignored,
        no_read_after_a_lost_response,
        name_proves_a_twin,
        pod_status_is_not_synced_back,
        foreign_objects_are_adopted,
        relists_delete_nothing,
        vanished_twin_is_not_read_live,
        failed_keys_are_dropped,
        terminating_namespace_loses_its_twin,
        changes_are_not_synced,
        uid_mismatch_is_a_rejection,
        twin_without_labels_is_not_found,
        caches_survive_a_store_change,
        frozen_replica_keeps_writing,
        tenants_are_never_disconnected,
        tenants_are_released_too_early,
        earlier_namespace_is_reused,
        claim_volume_is_not_synced_back,
        shown_volumes_are_not_deleted,
        ingress_address_is_not_synced_back,
        budgets_are_not_lowered,
        policies_select_every_namespace,
        manual_slices_are_not_synced,
        tokens_are_not_renewed,
        unneeded_tokens_stay,
        withdrawn_classes_stay,
        node_changes_are_not_shown,
        events_keep_super_names,
        orphan_sweep_runs_too_early,
        sleeping_tenants_are_followed,
        sleeping_pods_run_on,
        sleep_stops_kept_pods,
    )
}


@contextlib.contextmanager
def broken(name: str) -> Iterator[None]:
    """Run the product with one planted fault for the length of a block."""
    with contextlib.ExitStack() as stack:
        MUTANTS[name](stack)
        yield
