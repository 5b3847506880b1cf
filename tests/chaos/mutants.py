"""The product broken on purpose: each way must be found, or the machine proves nothing.

Owns the list of ways. Each puts something else in place of a part of the product for the length of
a block; the rest of it runs unchanged.
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
from syncer.tenants.session import Session
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


def no_brake(stack: contextlib.ExitStack) -> None:
    """Every store is taken for the one that was there before."""
    _put(stack, store_guard, "find_store_problem", lambda *_: "")


def late_counts_count(stack: contextlib.ExitStack) -> None:
    """The record of a store that arrives late takes the place of a newer one."""
    patch = Client.patch

    async def mutant(self: Client, resource: Resource, name: str, body: Any, **options: Any) -> Any:
        if resource is NAMESPACES and isinstance(body, dict):
            metadata = {k: v for k, v in body["metadata"].items() if k != "resourceVersion"}
            body = {**body, "metadata": metadata}
        return await patch(self, resource, name, body, **options)

    _put(stack, Client, "patch", mutant)


def absence_needs_no_proof(stack: contextlib.ExitStack) -> None:
    """Caches are used before they are complete, and what they lack is gone."""
    _put(stack, TenantConnection, "_wait_first_lists", _nothing)
    _put(stack, ProvenDeletes, "_needs_proof", lambda *_: False)


def stale_absence_is_proof(stack: contextlib.ExitStack) -> None:
    """What a cache does not show is deleted without a look at the servers."""
    _put(stack, ProvenDeletes, "_needs_proof", lambda *_: False)


def orphans_are_forgotten(stack: contextlib.ExitStack) -> None:
    """At a start, nobody looks at what is below."""

    _put(stack, SuperCluster, "iterate_owned", lambda *_: ())


def no_look_after_a_lost_answer(stack: contextlib.ExitStack) -> None:
    """A name that is taken is somebody else's, without a look."""

    async def mutant(kind: Any, pair: Any, _: Any, session: Any) -> Any:
        return await sync_down.report_name_taken(kind, pair, session)

    _put(stack, sync_down, "resolve_name_conflict", mutant)


def a_name_is_proof(stack: contextlib.ExitStack) -> None:
    """A super object of a tenant is the twin of whatever has its name now."""

    def mutant(_: SuperCluster, entry: Any, *, vc_uid: str, uid: str) -> bool:
        side = decide.build_super_state(entry)
        return side is not None and side.vc_uid == vc_uid and bool(uid)

    _put(stack, SuperCluster, "is_twin", mutant)


def no_news_of_pods(stack: contextlib.ExitStack) -> None:
    """Statuses are not carried up."""
    _put(stack, sync_up, "write_tenant_object", _nothing)


def strangers_are_ours(stack: contextlib.ExitStack) -> None:
    """What has the name is ours."""
    put_labels_back = adoption.restore_labels

    async def mutant(kind: Any, pair: Any, twin: Any, session: Any) -> Any:
        metadata = twin["metadata"]
        live = await session.super_client.get(
            kind.resource, metadata["name"], namespace=metadata.get("namespace", "")
        )
        await put_labels_back(kind, live["metadata"], session)
        return Done()

    _put(stack, sync_down, "resolve_name_conflict", mutant)


def lists_take_nothing_away(stack: contextlib.ExitStack) -> None:
    """What a new list lacks stays in the cache."""
    _put(stack, Store, "retain", lambda *_: None)


def a_vanished_twin_is_not_looked_for(stack: contextlib.ExitStack) -> None:
    """A twin that the cache lacks is gone."""
    _put(stack, pod_reconciler, "_prove_twin_absent", _nothing)


def failed_keys_are_dropped(stack: contextlib.ExitStack) -> None:
    """A key that failed is not tried again, and no patrol finds it."""
    _put(stack, Resync, "resync_session", _no_keys)
    _put(stack, Worker, "_requeue_with_backoff", lambda *_, **__: 0.0)
    _put(stack, Worker, "_handle_conflict", lambda *_: "conflict")


def namespaces_go_when_marked(stack: contextlib.ExitStack) -> None:
    """A namespace that is on its way out loses its twin at once."""
    original = decide.decide

    def mutant(*args: Any, **options: Any) -> SyncAction:
        return original(*args, **{**options, "follows_mark": True})

    _put(stack, decide, "decide", mutant)


def changes_are_not_carried(stack: contextlib.ExitStack) -> None:
    """What is there stays as it was made."""
    original = decide.decide

    def mutant(*args: Any, **options: Any) -> SyncAction:
        found = original(*args, **options)
        return decide.NO_ACTION if isinstance(found, CompareTwin) else found

    _put(stack, decide, "decide", mutant)


def a_wrong_uid_is_a_wrong_object(stack: contextlib.ExitStack) -> None:
    """Whose name another object has by now is told that its tenant wrote something wrong."""
    _put(stack, errors, "_is_uid_mismatch", lambda _: False)


def what_lost_its_labels_is_gone(stack: contextlib.ExitStack) -> None:
    """A twin that vanished from the cache is not looked for where nobody needs it."""
    _put(stack, adoption, "find_vanished_twin", _nothing)


def caches_outlive_their_store(stack: contextlib.ExitStack) -> None:
    """While deletes are held, watches go on from where they stood in another store."""
    _put(stack, TenantConnection, "_relist", lambda _: None)


def who_was_frozen_goes_on(stack: contextlib.ExitStack) -> None:
    """Writes are not held against the Lease's clock."""
    _put(stack, LeaderElector, "check_fence", lambda _: None)


def tenants_are_never_left(stack: contextlib.ExitStack) -> None:
    """A session goes on although what it was made of is gone."""

    async def mutant(*_: Any) -> None:
        await asyncio.Event().wait()

    _put(stack, TenantManager, "_wait_until_changed", mutant)


def tenants_are_let_go_too_early(stack: contextlib.ExitStack) -> None:
    """What is in hand goes on after the word that nothing is."""

    async def mutant(self: Session) -> None:
        self.is_ready = False
        self.queue.drop_group(self.tenant.uid)

    _put(stack, Session, "drain", mutant)


def an_earlier_namespace_will_do(stack: contextlib.ExitStack) -> None:
    """A namespace that is made again goes on with what was below for the one before."""
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


def claims_are_told_of_no_volume(stack: contextlib.ExitStack) -> None:
    """A claim's volume stays below."""
    _changed_row(stack, PERSISTENT_VOLUME_CLAIMS, build_spec_up=None)


def volumes_are_not_taken_away(stack: contextlib.ExitStack) -> None:
    """A volume that was shown once is shown for ever."""
    _put(stack, volumes, "_delete_shown_volume", _done)


def addresses_stay_below(stack: contextlib.ExitStack) -> None:
    """An Ingress has an address, and its tenant does not hear of it."""
    _changed_row(stack, INGRESSES, build_status_up=None)


def budgets_are_not_lowered(stack: contextlib.ExitStack) -> None:
    """A budget wants as many pods below as above, however many there are."""
    _put(stack, disruption_budgets, "_lower_by_one", lambda wanted, _: wanted)


def policies_select_every_namespace(stack: contextlib.ExitStack) -> None:
    """Which namespaces a network policy selects does not count."""
    _put(stack, label_selectors, "matches", lambda *_: True)


def slices_stay_above(stack: contextlib.ExitStack) -> None:
    """Endpoints that somebody wrote by hand do not go down."""
    _changed_row(stack, ENDPOINT_SLICES, is_wanted=lambda *_: False)


def tokens_are_not_renewed(stack: contextlib.ExitStack) -> None:
    """A token is good for as long as it was asked for."""
    _put(stack, token_specs, "compute_seconds_to_renewal", lambda *_: 7200.0)


def tokens_stay(stack: contextlib.ExitStack) -> None:
    """A token that nobody needs any more is kept."""
    _put(stack, tokens, "_delete_token", _nothing)


def classes_are_shown_for_ever(stack: contextlib.ExitStack) -> None:
    """What is not offered any more is still shown."""
    _put(stack, mirrors, "delete_mirror", _done)


def nodes_stay_as_they_were(stack: contextlib.ExitStack) -> None:
    """A node that changes is shown as it was."""
    _put(stack, virtual_nodes, "is_node_current", lambda *_: True)


def events_say_all(stack: contextlib.ExitStack) -> None:
    """What is told below is told above in the same words."""
    _put(stack, object_meta, "replace_names", lambda text, _: text)
    _put(stack, Sanitizer, "sanitize_text", lambda _, text, **__: text)


def the_last_look_comes_too_early(stack: contextlib.ExitStack) -> None:
    """A tenant that has ended is looked for again before what was sent for it has arrived."""
    _put(stack, orphan_sweep, "ORPHAN_DELAY_SECONDS", 0.5)


MUTANTS: Mapping[str, PlantedFault] = {
    mutant.__name__: mutant
    for mutant in (
        no_uid_in_deletes,
        no_brake,
        late_counts_count,
        absence_needs_no_proof,
        stale_absence_is_proof,
        orphans_are_forgotten,
        no_look_after_a_lost_answer,
        a_name_is_proof,
        no_news_of_pods,
        strangers_are_ours,
        lists_take_nothing_away,
        a_vanished_twin_is_not_looked_for,
        failed_keys_are_dropped,
        namespaces_go_when_marked,
        changes_are_not_carried,
        a_wrong_uid_is_a_wrong_object,
        what_lost_its_labels_is_gone,
        caches_outlive_their_store,
        who_was_frozen_goes_on,
        tenants_are_never_left,
        tenants_are_let_go_too_early,
        an_earlier_namespace_will_do,
        claims_are_told_of_no_volume,
        volumes_are_not_taken_away,
        addresses_stay_below,
        budgets_are_not_lowered,
        policies_select_every_namespace,
        slices_stay_above,
        tokens_are_not_renewed,
        tokens_stay,
        classes_are_shown_for_ever,
        nodes_stay_as_they_were,
        events_say_all,
        the_last_look_comes_too_early,
    )
}


@contextlib.contextmanager
def broken(name: str) -> Iterator[None]:
    """Run the product broken in one way for the length of a block."""
    with contextlib.ExitStack() as stack:
        MUTANTS[name](stack)
        yield
