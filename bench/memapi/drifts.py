"""Objects of the super cluster that somebody changes or deletes by hand, and when each is repaired.

Owns what is done to them and the stamps. An object is repaired when it says again what it said
before, or is there again. Hazard: the pods of bare loads refer to nothing, so only real ones show
how what is deleted comes back.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.memapi import verbs
from bench.memapi.cluster import Cluster, Collection, Key
from bench.memapi.watches import Object, Stored
from tenancy.resources import CONFIG_MAPS, PODS, SECRETS

_USER = "kubectl"
_OTHER_IMAGE = "registry.example/other:9"


@dataclass(eq=False)
class _Drift:
    """What was done to one object."""

    said: object
    at: float
    repaired: asyncio.Event = field(default_factory=asyncio.Event)
    late: float = 0.0


def _said(body: Object) -> object:
    """Return what of an object a syncer has to keep."""
    if body["kind"] == "Pod":
        return [each["image"] for each in body["spec"]["containers"]]
    return sorted(body.get("data") or {})  # a token that comes again is another one


def _edit(collection: Collection, there: Stored) -> None:
    body = there.decode()
    if body["kind"] == "Pod":
        body["spec"]["containers"][0]["image"] = _OTHER_IMAGE
    else:
        body["data"] = {}
    verbs.replace(collection, there, body, _USER)


def _delete(collection: Collection, there: Stored) -> None:
    verbs.delete(collection, there, {})


async def make(
    below: Cluster, prefix: str, count: int, per_second: float, patience: float
) -> dict[str, list[float]]:
    """Change and delete up to `count` objects of each kind in the namespaces of the pods so named.

    Returns milliseconds until each was repaired; those that never were have waited in vain for
    `patience` seconds.
    """
    pods = [each for each in below.of(PODS).all() if each.name.startswith(prefix)]
    spaces = {each.namespace for each in pods}
    of_pods = (
        (f"{what} {resource.plural}", below.of(resource), do)
        for resource in (CONFIG_MAPS, SECRETS)
        for what, do in (("changed", _edit), ("deleted", _delete))
    )
    found: dict[str, list[float]] = {}
    for what, collection, do in (("changed pods", below.of(PODS), _edit), *of_pods):
        there = [
            each
            for each in collection.all()
            if each.namespace in spaces and (collection is not below.of(PODS) or each in pods)
        ]
        found[what] = await _each(collection, there[:count], do, per_second, patience)
    return {what: late for what, late in found.items() if late}


async def _each(
    collection: Collection,
    there: list[Stored],
    do: Callable[[Collection, Stored], None],
    per_second: float,
    patience: float,
) -> list[float]:
    drifts: dict[Key, _Drift] = {}

    def seen(kind: str, body: Object) -> None:
        metadata = body["metadata"]
        drift = drifts.get((metadata["namespace"], metadata["name"]))
        if drift is not None and kind != "DELETED" and _said(body) == drift.said:
            drift.late = 1e3 * (time.monotonic() - drift.at)
            drift.repaired.set()

    collection.listeners.append(seen)
    try:
        for each in there:
            drift = _Drift(_said(each.decode()), time.monotonic())
            drifts[each.namespace, each.name] = drift
            do(collection, each)
            await asyncio.sleep(1 / per_second)
        try:
            async with asyncio.timeout(patience):
                for drift in drifts.values():
                    await drift.repaired.wait()
        except TimeoutError:
            pass
    finally:
        collection.listeners.remove(seen)
    return [drift.late or 1e3 * patience for drift in drifts.values()]
