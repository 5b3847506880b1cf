"""Lifecycle of targets: a client and caches per SuperCluster, started and ended.

Owns one turn of the loop of a target. `syncer.lifecycle.supervisor` repeats the turns. Three
conditions must hold for a connection: the SuperCluster exists, vc-manager has found its identity,
and its Secret describes how to reach it. A change of the Secret or the address creates a new client
and disturbs no other target. Must not know the objects of tenants. Hazard: the identity must be
verified before any list, because a different cluster may answer. Otherwise the caches would contain
its objects.
"""

import asyncio
import base64
import binascii
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import structlog

from kubeio import errors
from kubeio.cache.reflector import ReflectorOptions
from kubeio.cache.scoped_reflector import ScopedReflector
from kubeio.cache.store import Entry, Store
from kubeio.config import secret_kubeconfig
from kubeio.controller.worker import NotReadyYet
from syncer.clusters import target_conditions
from syncer.clusters.home_cluster import HomeCluster
from syncer.clusters.target_cluster import TargetCluster, TargetPlan
from syncer.lifecycle.supervisor import UNTIL_CHANGED, SupervisedLoop, Supervisor
from syncer.model.rejections import MALFORMED_OBJECT_ERRORS
from syncer.model.unstructured import as_mapping, as_mappings
from syncer.tenants.metrics import TargetCounts
from tenancy import conditions, super_clusters
from tenancy.resources import SECRETS
from tenancy.specs import InvalidSpecError
from tenancy.super_clusters import (
    HOME,
    SYNCER_CONDITIONS,
    SecretRef,
    SuperClusterStatus,
)
from tenancy.sync_rules.specs import SyncRule

PLAN_RETRY_SECONDS = 10.0
"""Retry interval in seconds for a plan that could not be read."""
MAX_RETRY_SECONDS = 30.0
"""Longest delay in seconds before the next connection of a target."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class TargetManager:
    """All targets."""

    def __init__(
        self, home: HomeCluster, *, subscribe_events: Callable[[TargetCluster], None]
    ) -> None:
        """`subscribe_events` is called with each target before its caches are filled."""
        self.targets: dict[str, TargetCluster] = {}
        """By name, from the first connection attempt on."""
        self._home = home
        self._subscribe_events = subscribe_events
        self._handlers: list[Callable[[], None]] = []
        self._declared = home.super_clusters
        self._secrets = Store()
        self._supervisor = Supervisor(
            "target", step=self._run_turn, max_retry_seconds=MAX_RETRY_SECONDS
        )
        self._metric_counts = TargetCounts(self.targets, self._count_declared)
        self._secret_watches = ScopedReflector(
            home.client,
            SECRETS,
            self._secrets,
            ReflectorOptions(metadata_only=True, side="super"),
            loop_budget=home.loop_budget,
        )

    def _count_declared(self) -> int:
        """Count the SuperClusters that are not being deleted, without the home cluster's."""
        return sum(e.name != HOME and not e.deleting for e in self._declared.list())

    def get_ready(self, name: str) -> TargetCluster | None:
        """Return a target if its caches are complete, otherwise None."""
        found = self.targets.get(name)
        return found if found is not None and found.is_ready else None

    def may_have_copies(self, rule: SyncRule) -> bool:
        """Return whether a target may have copies of a rule.

        A target that is away may have some, if a tenant may have objects in it.
        """
        named = {name for each in self._home.virtual_clusters.list() for name in _list_named(each)}
        for name in named:
            found = self.get_ready(name)
            if found is None or found.problem:
                if self._declared.get("", name) is not None:
                    return True
            elif found.cluster.ruled.may_have_copies(rule.resource.kind):
                return True
        return False

    def subscribe(self, handler: Callable[[], None]) -> Callable[[], None]:
        """Call `heard` on every change of a target: ready, disconnected, away, back, or a new plan.

        Returns the function that unsubscribes.
        """
        self._handlers.append(handler)
        return partial(self._handlers.remove, handler)

    def _notify(self) -> None:
        for heard in list(self._handlers):
            heard()

    async def run(self) -> None:
        """Keep targets connected until cancelled. The home cluster's caches must be complete."""
        self._secrets.subscribe(self._handle_secret)
        await self._supervisor.run(self._subscribe_declared)

    def _subscribe_declared(self, group: asyncio.TaskGroup) -> None:
        group.create_task(self._secret_watches.run(), name="target-secrets")
        self._declared.subscribe(self._handle_super_cluster, replay=True)

    def _handle_super_cluster(self, old: Entry | None, new: Entry | None, _: bool) -> None:
        entry = new or old
        if entry is not None and entry.name != HOME:
            self._watch_secrets()
            if old is None or new is None or _get_foreign_fields(old) != _get_foreign_fields(new):
                self._supervisor.wake(entry.name)
            if old is None or new is None:
                self._notify()

    def _watch_secrets(self) -> None:
        """Watch the Secrets that SuperClusters name, one by one.

        The syncer may read no other Secret of the components' namespace. vc-manager grants these.
        """
        namespace, watches = self._home.namespace, self._secret_watches
        wanted = {name for each in self._declared.list() if (name := _get_secret_name(each))}
        for name in watches.list_names(namespace):
            if name not in wanted:
                watches.stop(namespace, name)
        for name in sorted(wanted):
            watches.start(namespace, name)

    def _handle_secret(self, old: Entry | None, new: Entry | None, _: bool) -> None:
        entry = new or old
        if entry is None:
            return
        for declared in self._declared.list():
            if _get_secret_name(declared) == entry.name:
                self._supervisor.wake(declared.name)

    async def _run_turn(self, name: str, loop: SupervisedLoop) -> float | None:
        """Run one connection to a target, or report why there cannot be one.

        Returns the seconds until the next turn, or None once the SuperCluster does not exist.
        """
        if self._declared.get("", name) is None:
            return None
        try:
            plan = await self._build_plan(name)
            problem = await self._run_target(plan, loop) if plan is not None else ""
        except (
            errors.KubeError,
            NotReadyYet,
            InvalidSpecError,
            *MALFORMED_OBJECT_ERRORS,
        ) as found:
            problem = str(found)
        if not problem:
            return UNTIL_CHANGED
        _log.warning("target.not_connected", target=name, problem=problem)
        await self._write_problem(name, problem)
        return loop.get_retry_seconds()

    async def _write_problem(self, name: str, problem: str) -> None:
        """Report on a SuperCluster why it is not connected.

        The next attempt retries a failed write.
        """
        entry = self._declared.get("", name)
        if entry is None or entry.deleting:
            return
        try:
            await target_conditions.write_target_conditions(
                self._home.client, entry, problem=problem, pod_loss_guard=None
            )
        except errors.KubeError as refused:
            _log.warning("target.status_not_written", target=name, problem=str(refused))

    async def _build_plan(self, name: str) -> TargetPlan | None:
        """Return the configuration of a target's client, or None while there can be no client.

        Raises CredentialsProblem, SpecProblemError, or KubeError if the Secret cannot be read.
        """
        entry = self._declared.get("", name)
        if entry is None or entry.deleting:
            return None
        body = entry.decode()
        spec, status = super_clusters.parse_spec(body), super_clusters.parse_status(body)
        if spec.secret_ref is None or not status.identity:
            return None  # a change of its status starts the next turn
        data = await self._fetch_secret(spec.secret_ref)
        endpoint = secret_kubeconfig.parse_endpoint(
            data,
            name=f"SuperCluster {name}",
            key=spec.secret_ref.key,
            context=spec.secret_ref.context,
            server=spec.server,
            tls_server_name=spec.tls_server_name,
        )
        return TargetPlan(
            name=name,
            registration=entry.uid,
            identity=status.identity,
            endpoint=endpoint,
            spec=spec,
            version=status.version,
            refusal=_find_refusal(status),
        )

    async def _fetch_secret(self, ref: SecretRef) -> Mapping[str, bytes]:
        secret = await self._home.client.get(SECRETS, ref.name, namespace=self._home.namespace)
        return {key: _decode_value(value) for key, value in (secret.get("data") or {}).items()}

    async def _run_target(self, plan: TargetPlan, loop: SupervisedLoop) -> str:
        """Sync a target until its plan changes.

        Returns the reason of a failure, or an empty string.
        """
        target = self.targets[plan.name] = TargetCluster(plan, self._home, on_changed=self._notify)
        self._subscribe_events(target)
        try:
            return await loop.run_connection(
                target.run(), until=self._wait_until_changed(target, plan, loop)
            )
        finally:
            self.targets.pop(plan.name, None)
            self._notify()
            _log.info("target.disconnected", target=plan.name)

    async def _wait_until_changed(
        self, target: TargetCluster, plan: TargetPlan, loop: SupervisedLoop
    ) -> None:
        """Return when the target's plan differs or no longer exists.

        A credential that was deleted or made invalid is no longer used.
        """
        while True:
            seconds = UNTIL_CHANGED
            try:
                found = await self._build_plan(plan.name)
            except (errors.Unavailable, errors.TooManyRequests):
                seconds = PLAN_RETRY_SECONDS  # a problem of the home cluster, not the target's
            except (errors.KubeError, InvalidSpecError, *MALFORMED_OBJECT_ERRORS):
                break  # the next turn reports the problem
            else:
                if found is None or found.compute_digest() != plan.compute_digest():
                    break
                target.update_plan(found)
            await loop.wait_next_change(seconds)
        loop.wake()


def _list_named(virtual_cluster: Entry) -> list[str]:
    """Return the targets in the status of a VirtualCluster."""
    status = as_mapping(virtual_cluster.decode().get("status"))
    return [str(each.get("name")) for each in as_mappings(status.get("targets"))]


def _get_secret_name(declared: Entry) -> str:
    """Return the name of the Secret of a SuperCluster. Empty without one."""
    ref = (declared.decode().get("spec") or {}).get("secretRef") or {}
    return str(ref.get("name") or "")


def _get_foreign_fields(entry: Entry) -> tuple[Any, ...]:
    """Return what other writers have in a SuperCluster. The syncer's own conditions are left out.

    Otherwise each failure with a new text would cause the next attempt at once.
    """
    body = entry.decode()
    status = body.get("status") or {}
    listed = status.get("conditions") or ()
    theirs = [each for each in listed if each.get("type") not in SYNCER_CONDITIONS]
    head = (entry.uid, entry.deleting, entry.annotations, body.get("spec"))
    return (*head, {**status, "conditions": theirs})


def _find_refusal(status: SuperClusterStatus) -> str:
    """Return the reason against placing pods in a cluster. It must be reported ready."""
    ready = conditions.find_condition(status.conditions, super_clusters.READY) or {}
    if ready.get("status") == "True":
        return ""
    return f"is not ready ({ready.get('reason') or 'not checked yet'})"


def _decode_value(value: Any) -> bytes:
    """Return a Secret's value. The API server would refuse invalid base64."""
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        return b""
