"""Objects that are changed or deleted by hand, and the time of each repair.

Owns the changes and the stamps. An object is repaired when it has its old content again, or exists
again. A pod's own object that is deleted in the super cluster is not recreated: its tenant sees
that it has failed, and its controller must create another. Hazard: the pods of bare loads refer to
nothing, so only real ones show how deleted objects return.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tenancy.resources import CONFIG_MAPS, PODS, SECRETS
from tests.support.memapi import verbs
from tests.support.memapi.cluster import Collection, MemoryCluster, ObjectKey
from tests.support.memapi.watches import Object, StoredObject

_USER = "kubectl"
_OTHER_IMAGE = "registry.example/other:9"

DriftAction = Callable[[Collection, StoredObject], None]


@dataclass(eq=False, kw_only=True)
class _PlantedDrift:
    """A change of one object, and the watch that shows its repair."""

    do: Callable[[], None]
    heard: Collection
    key: ObjectKey
    is_repaired: Callable[[str, Object], bool]
    at: float = 0.0
    late: float = 0.0
    repaired: asyncio.Event = field(default_factory=asyncio.Event)

    def seen(self, kind: str, body: Object) -> None:
        """Record the first event that shows it."""
        metadata = body["metadata"]
        if self.key != (metadata["namespace"], metadata["name"]) or self.repaired.is_set():
            return
        if self.at and self.is_repaired(kind, body):
            self.late = 1e3 * (time.monotonic() - self.at)
            self.repaired.set()


def _said(body: Object) -> object:
    """Return what of an object a syncer has to keep."""
    if body["kind"] == "Pod":
        return [each["image"] for each in body["spec"]["containers"]]
    return sorted(body.get("data") or {})  # a token that comes again is another one


def _status(body: Object) -> object:
    """Return what of a status a syncer has to keep."""
    status = body["status"]
    return status["phase"], [each["type"] for each in status.get("conditions") or ()]


def _edit(collection: Collection, there: StoredObject) -> None:
    body = there.decode()
    if body["kind"] == "Pod":
        body["spec"]["containers"][0]["image"] = _OTHER_IMAGE
    else:
        body["data"] = {}
    verbs.replace(collection, there, body, _USER)


def _forget(collection: Collection, there: StoredObject) -> None:
    """Lose a status, as who restores a store does."""
    collection.put({**there.decode(), "status": {"phase": "Pending"}})


def _delete(collection: Collection, there: StoredObject) -> None:
    verbs.delete(collection, there, {"gracePeriodSeconds": 0})


def _has_failed(kind: str, body: Object) -> bool:
    return kind == "DELETED" or body["status"].get("phase") == "Failed"


def _back(
    collection: Collection,
    there: StoredObject,
    do: DriftAction,
    said: Callable[[Object], object] = _said,
) -> _PlantedDrift:
    """Return a drift that ends when the object has its present content again."""
    before = said(there.decode())
    return _PlantedDrift(
        do=lambda: do(collection, there),
        heard=collection,
        key=(there.namespace, there.name),
        is_repaired=lambda kind, body: kind != "DELETED" and said(body) == before,
    )


def _told(
    twins: Collection, twin: StoredObject, above: Collection, pod: StoredObject
) -> _PlantedDrift:
    """Return a drift that ends when the tenant reads that its pod has failed or was deleted."""
    return _PlantedDrift(
        do=lambda: _delete(twins, twin),
        heard=above,
        key=(pod.namespace, pod.name),
        is_repaired=_has_failed,
    )


def _drifts(
    below: MemoryCluster, tenants: Sequence[MemoryCluster], prefix: str, count: int
) -> Iterator[tuple[str, list[_PlantedDrift]]]:
    """Yield the changes by kind. Deleted pods come last."""
    twins = below.of(PODS)
    pods = {each.name: each for each in twins.all() if each.name.startswith(prefix)}
    spaces = {each.namespace for each in pods.values()}
    above = {
        pod.name: (tenant.of(PODS), pod)
        for tenant in tenants
        for pod in tenant.of(PODS).all()
        if pod.name in pods
    }
    first = list(pods)[:count]
    yield "changed pods", [_back(twins, pods[name], _edit) for name in first]
    yield "lost statuses", [_back(*above[name], _forget, _status) for name in first]
    for resource in (CONFIG_MAPS, SECRETS):
        collection = below.of(resource)
        for what, do in (("changed", _edit), ("deleted", _delete)):
            there = [each for each in collection.all() if each.namespace in spaces][:count]
            yield f"{what} {resource.plural}", [_back(collection, each, do) for each in there]
    yield "deleted pods", [_told(twins, pods[name], *above[name]) for name in first]


async def make(
    below: MemoryCluster,
    tenants: Sequence[MemoryCluster],
    *,
    prefix: str,
    count: int,
    per_second: float,
    patience: float,
) -> dict[str, list[float]]:
    """Change and delete up to `count` objects of each kind in the namespaces of the pods so named.

    Returns milliseconds until each repair. Objects without a repair were awaited for `patience`
    seconds.
    """
    found = {
        what: await _each(drifts, per_second, patience)
        for what, drifts in _drifts(below, tenants, prefix, count)
    }
    return {what: late for what, late in found.items() if late}


async def _each(drifts: list[_PlantedDrift], per_second: float, patience: float) -> list[float]:
    for drift in drifts:
        drift.heard.listeners.append(drift.seen)
    try:
        for drift in drifts:
            drift.at = time.monotonic()
            drift.do()
            await asyncio.sleep(1 / per_second)
        try:
            async with asyncio.timeout(patience):
                for drift in drifts:
                    await drift.repaired.wait()
        except TimeoutError:
            pass
    finally:
        for drift in drifts:
            drift.heard.listeners.remove(drift.seen)
    return [drift.late or 1e3 * patience for drift in drifts]
