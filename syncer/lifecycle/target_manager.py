"""Which other super clusters are followed: a client and caches for each, started and ended.

Owns one keeper per SuperCluster. A target is followed while its SuperCluster lives, vc-manager has
found out who it is, and its Secret describes how to reach it; another Secret or address means a new
client, and disturbs nobody else. Must not know what tenants have there. Hazard: what answers may be
another cluster than the one meant, so nothing is listed before the anchor has held.
"""

import asyncio
import base64
import binascii
import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import structlog

from kubeio import errors
from kubeio.backoff import Backoff
from kubeio.cache.reflector import Reflector
from kubeio.cache.store import Entry, Store
from kubeio.config import secret_kubeconfig
from kubeio.controller.worker import Wait
from syncer.clusters import target_conditions
from syncer.clusters.home_cluster import Home
from syncer.clusters.super_cluster import SuperCluster
from syncer.clusters.target_cluster import Plan, Target
from syncer.model.rejections import STUMBLES
from syncer.tenants.metrics import TargetCounts
from tenancy import conditions, super_clusters
from tenancy.resources import SECRETS
from tenancy.specs import SpecProblemError
from tenancy.super_clusters import (
    HOME,
    SYNCER_CONDITIONS,
    SecretRef,
    SuperClusterStatus,
)

AGAIN_SECONDS = 10.0
"""When a plan is looked at again that could not be read."""
STEADY_SECONDS = 60.0
"""A target that was followed for so long was no failure; shorter times follow ever slower."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class Targets:
    """All of them."""

    def __init__(self, home: Home, *, wire: Callable[[SuperCluster], None]) -> None:
        """`wire` is called with the caches of each target before they are filled."""
        self.followed: dict[str, Target] = {}
        """By name, from the first try to follow them on."""
        self._home = home
        self._wire = wire
        self._heard: list[Callable[[], None]] = []
        self._declared = home.super_clusters
        self._secrets = Store()
        self._keepers: dict[str, asyncio.Task[None]] = {}
        self._changed: dict[str, asyncio.Event] = {}
        self._counts = TargetCounts(self.followed, self._count)
        self._group: asyncio.TaskGroup | None = None
        self._watching: asyncio.Task[None] | None = None

    def _count(self) -> int:
        """Count the targets that somebody still wants."""
        return sum(e.name != HOME and not e.deleting for e in self._declared.list())

    def ready(self, name: str) -> Target | None:
        """Return a target whose caches are complete."""
        found = self.followed.get(name)
        return found if found is not None and found.is_ready else None

    def subscribe(self, heard: Callable[[], None]) -> Callable[[], None]:
        """Call `heard` whenever a target is ready, is left, is away or back, or says otherwise.

        Returns what ends that.
        """
        self._heard.append(heard)
        return partial(self._heard.remove, heard)

    def _tell(self) -> None:
        for heard in list(self._heard):
            heard()

    async def run(self) -> None:
        """Keep targets until cancelled; the home cluster's caches are complete."""
        self._secrets.subscribe(self._secret_changed)
        async with asyncio.TaskGroup() as group:
            self._group = group
            self._declared.subscribe(self._cluster_changed, replay=True)
            await asyncio.Event().wait()

    def _cluster_changed(self, old: Entry | None, new: Entry | None, _: bool) -> None:
        entry = new or old
        if entry is not None and entry.name != HOME:
            self._watch_secrets()
            if old is None or new is None or _said(old) != _said(new):
                self._touch(entry.name)
            if old is None or new is None:
                self._tell()

    def _watch_secrets(self) -> None:
        """Begin to watch the Secrets of the components' namespace, with the first target."""
        assert self._group is not None  # noqa: S101 - handlers are subscribed by run
        if self._watching is None:
            reflector = Reflector(
                self._home.client,
                SECRETS,
                self._secrets,
                namespace=self._home.namespace,
                metadata_only=True,
                side="super",
                turns=self._home.turns,
            )
            self._watching = self._group.create_task(reflector.run(), name="target-secrets")

    def _secret_changed(self, old: Entry | None, new: Entry | None, _: bool) -> None:
        entry = new or old
        if entry is None:
            return
        for declared in self._declared.list():
            ref = (declared.decode().get("spec") or {}).get("secretRef") or {}
            if ref.get("name") == entry.name:
                self._touch(declared.name)

    def _touch(self, name: str) -> None:
        """Have a target's keeper look again, and see that it has one."""
        assert self._group is not None  # noqa: S101 - handlers are subscribed by run
        self._changed.setdefault(name, asyncio.Event()).set()
        keeper = self._keepers.get(name)
        if keeper is None or keeper.done():
            self._keepers[name] = self._group.create_task(self._keep(name), name=f"target-{name}")

    async def _keep(self, name: str) -> None:
        """Keep one target followed for as long as its SuperCluster is there."""
        backoff = Backoff(base=1.0, ceiling=30.0)
        changed = self._changed[name]
        while self._declared.get("", name) is not None:
            changed.clear()
            try:
                plan = await self._plan(name)
                problem = await self._follow(plan, changed, backoff)
            except (errors.KubeError, Wait, SpecProblemError, *STUMBLES) as found:
                problem = str(found)
            if problem:
                _log.warning("target.not_followed", target=name, problem=problem)
                await self._say(name, problem)
            await _first(changed, backoff.next() if problem else None)
        self._changed.pop(name, None)
        self._keepers.pop(name, None)

    async def _say(self, name: str, problem: str) -> None:
        """Say on a SuperCluster why it is not followed; the next try says it again."""
        entry = self._declared.get("", name)
        if entry is None or entry.deleting:
            return
        try:
            await target_conditions.say(self._home.client, entry, problem=problem, muster=None)
        except errors.KubeError as refused:
            _log.warning("target.not_told", target=name, problem=str(refused))

    async def _plan(self, name: str) -> Plan | None:
        """Return what a target's client is made of, or None while there can be none.

        Raises CredentialsProblem, SpecProblemError, or KubeError when the Secret cannot be read.
        """
        entry = self._declared.get("", name)
        if entry is None or entry.deleting:
            return None
        body = entry.decode()
        spec, status = super_clusters.parse_spec(body), super_clusters.parse_status(body)
        if spec.secret_ref is None or not status.identity:
            return None  # its status wakes this keeper
        data = await self._data(spec.secret_ref)
        endpoint = secret_kubeconfig.endpoint(
            data,
            name=f"SuperCluster {name}",
            key=spec.secret_ref.key,
            context=spec.secret_ref.context,
            server=spec.server,
            tls_server_name=spec.tls_server_name,
        )
        return Plan(
            name=name,
            registration=entry.uid,
            identity=status.identity,
            endpoint=endpoint,
            spec=spec,
            version=status.version,
            refusal=_refusal(status),
        )

    async def _data(self, ref: SecretRef) -> Mapping[str, bytes]:
        secret = await self._home.client.get(SECRETS, ref.name, namespace=self._home.namespace)
        return {key: _decoded(value) for key, value in (secret.get("data") or {}).items()}

    async def _follow(self, plan: Plan | None, changed: asyncio.Event, backoff: Backoff) -> str:
        """Follow a target until its plan changes; returns why it failed, empty when it did not."""
        if plan is None:
            return ""
        began = asyncio.get_running_loop().time()
        target = self.followed[plan.name] = Target(plan, self._home, changed=self._tell)
        self._wire(target.cluster)
        running = asyncio.ensure_future(target.run())
        watching = asyncio.ensure_future(self._until_changed(target, plan, changed))
        try:
            await asyncio.wait((running, watching), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (running, watching):
                task.cancel()
            await asyncio.wait((running, watching))
            self.followed.pop(plan.name, None)
            self._tell()
            _log.info("target.left", target=plan.name)
        if asyncio.get_running_loop().time() - began >= STEADY_SECONDS:
            backoff.reset()
        return _why(running)

    async def _until_changed(self, target: Target, plan: Plan, changed: asyncio.Event) -> None:
        """Return when the target's plan is another one, or there is none any more.

        A credential that was taken away, or made useless, is not used any longer.
        """
        while True:
            seconds: float | None = None
            try:
                found = await self._plan(plan.name)
            except (errors.Unavailable, errors.TooManyRequests):
                seconds = AGAIN_SECONDS  # that is the home cluster's trouble and not the target's
            except (errors.KubeError, SpecProblemError, *STUMBLES):
                break  # the keeper says what is wrong
            else:
                if found is None or found.digest() != plan.digest():
                    break
                target.says(found)
            await _first(changed, seconds)
            changed.clear()
        changed.set()


def _said(entry: Entry) -> tuple[Any, ...]:
    """Return what others say of a SuperCluster: what we say ourselves is no reason to look again.

    Or each failure, said in other words than the last, would be followed by the next at once.
    """
    body = entry.decode()
    status = body.get("status") or {}
    listed = status.get("conditions") or ()
    theirs = [each for each in listed if each.get("type") not in SYNCER_CONDITIONS]
    head = (entry.uid, entry.deleting, entry.annotations, body.get("spec"))
    return (*head, {**status, "conditions": theirs})


def _refusal(status: SuperClusterStatus) -> str:
    """Return why a cluster is not one that pods are placed in; it has to be said to be ready."""
    ready = conditions.find(status.conditions, super_clusters.READY) or {}
    if ready.get("status") == "True":
        return ""
    return f"is not ready ({ready.get('reason') or 'nobody has looked yet'})"


def _decoded(value: Any) -> bytes:
    """Return a Secret's value; what is no base64 the API server would not have taken."""
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        return b""


def _why(running: "asyncio.Future[None]") -> str:
    """Return why a target was followed no longer, empty when that was ended."""
    if running.cancelled():
        return ""
    problem: BaseException | None = running.exception()
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    if problem is None:
        return ""
    if not isinstance(problem, errors.KubeError | Wait):
        _log.error("target.crashed", exc_info=problem)
    return str(problem) or type(problem).__name__


async def _first(changed: asyncio.Event, seconds: float | None) -> None:
    """Wait for a change or for some time, whichever comes first."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await changed.wait()
