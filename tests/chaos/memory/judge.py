"""Rules for each request that the syncer sends, and for the state after each step.

Owns the invariants I2, I3, I6 and I7 of the reference (`reliability-security.md`, 4b), of I8 that
no one is told of what is not theirs, and what was broken. Those at rest are in `rest`. Looks at the
clusters themselves, never at the syncer's caches.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import orjson

from kubeio.http.transport_protocol import HttpRequest
from tenancy import names, ownership, wellknown
from tenancy.resources import (
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    NAMESPACES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    VIRTUAL_CLUSTERS,
    Resource,
)
from tests.chaos.memory import variables
from tests.chaos.memory.kinds import OTHERS
from tests.chaos.oracles import Violation
from tests.support.memapi.watches import StoredObject

if TYPE_CHECKING:
    from tests.chaos.memory.tenant import SimulatedTenant
    from tests.chaos.memory.world import MachineWorld

Object = dict[str, Any]

HOME = "vc-manager"
"""Namespace of the product itself."""

_OF_THE_DEAD = ("the client is not open", "LeaseLostError(")
"""What the tasks of a killed process say, which no one waits for any longer."""
IN_FLIGHT_SECONDS = 60.0
"""How long the end of an object may still be carried down, that was seen to end before a restore
brought it back: what was under way is not called back."""
STRICT = (NAMESPACES, PODS, SERVICES, *OTHERS)
"""Kinds whose twins stay for as long as their tenant objects live."""
SYNCED = (*STRICT, CONFIG_MAPS, SECRETS)


class RequestSubject(NamedTuple):
    """The subject of a request."""

    resource: Resource
    namespace: str
    name: str
    subresource: str


def _is_placed_anew(stored: StoredObject, options: Any) -> bool:
    """Return whether a pod goes that has no node yet, and no other version of it. It is recreated.

    What its tenant adds to nodes is written into it once.
    """
    version = (options.get("preconditions") or {}).get("resourceVersion", "")
    body = stored.decode()
    has_node = bool((body.get("spec") or {}).get("nodeName"))
    return body["kind"] == PODS.kind and version == str(stored.revision) and not has_node


class WorldChecker:
    """Looks at one world."""

    def __init__(self, world: MachineWorld) -> None:
        self.world = world
        self.breaks: list[Violation] = []
        self.writes: Counter[str] = Counter()
        """Writes of the syncer, its Lease's apart."""
        self.last_write = ""
        self.requests = 0
        self._looked_at = 0
        """The super cluster's revision at the last look."""
        self._owners: dict[str, str] = {}
        """Which tenant object each super object was made for, by UID."""

    def broke(self, rule: str, text: str) -> None:
        """Remember that a rule was broken."""
        self.breaks.append(Violation(rule, f"{self.world.loop.time():.3f} s: {text}"))

    def fell(self, replica: str, problem: BaseException) -> None:
        """A process of the syncer fell over."""
        self.broke("process", f"{replica} ended by itself: {problem!r}")

    # At every request, when it is sent.

    def sent(self, side: str, request: HttpRequest, by: str) -> None:
        """Judge a request of one of the syncer's processes."""
        self.requests += 1
        world = self.world
        if side != "super" and world.tenants[int(side[6:])].is_silent:
            self.broke("I3", f"a request to {side}, which was left: {request.where}")
        target = self._target(side, request.target)
        what = f"{side} {request.method} {urlsplit(request.target).path}"
        world.trace.append(f"{world.loop.time():.6f} {what} {len(request.body or b'')}")
        if request.method == "GET" or target is None or target.resource is LEASES:
            return
        self._judge_leader(what, by)
        body: Any = orjson.loads(request.body) if request.body else {}
        if not self._is_in_vain(side, target, request, body):
            self.writes[side] += 1
            self.last_write = what
        if side == "super":
            self._sent_below(target, request, body)
        else:
            self._sent_above(world.tenants[int(side[6:])], target, request, body)

    def _judge_leader(self, what: str, by: str) -> None:
        """No one writes but the one that holds the Lease."""
        stored = self.world.below.of(LEASES).get(HOME, wellknown.SYNCER)
        holder = stored.decode()["spec"].get("holderIdentity") if stored is not None else None
        if holder != by:
            self.broke("lease", f"{by} writes, and {holder or 'nobody'} has the Lease: {what}")

    def _is_in_vain(
        self, side: str, target: RequestSubject, request: HttpRequest, body: Any
    ) -> bool:
        """Return whether a create meets a foreign object. It is tried once a minute for ever."""
        if request.method != "POST" or side != "super" or target.name:
            return False
        name = body["metadata"].get("name", "")
        stored = self.world.below.of(target.resource).get(target.namespace, name)
        return stored is not None and ownership.read_owner(stored.decode()["metadata"]) is None

    def _target(self, side: str, target: str) -> RequestSubject | None:
        api = self.world.apis[0 if side == "super" else 1 + int(side[6:])]
        place = api.place(urlsplit(target).path)
        if place is None:
            return None
        return RequestSubject(
            place.collection.resource, place.namespace, place.name, place.subresource
        )

    def _sent_below(self, target: RequestSubject, request: HttpRequest, body: Any) -> None:
        owner = self._judge_place(target, body)
        if owner is not None and target.resource is not VIRTUAL_CLUSTERS:
            self._judge_let_go(owner, request)
        self._judge_canaries(owner, request)
        if request.method == "DELETE":
            self._judge_delete(target, body)
        elif request.method in ("PUT", "PATCH") and target.resource in SYNCED:
            self._judge_change(target, request, body)

    def _judge_place(self, target: RequestSubject, body: Any) -> SimulatedTenant | None:
        """I3: only namespaces that a VirtualCluster owns are written to."""
        world, resource = self.world, target.resource
        if resource is VIRTUAL_CLUSTERS:
            return next((t for t in world.tenants if t.tenant.name == target.name), None)
        if resource is NAMESPACES:
            name = target.name or body["metadata"]["name"]
            for tenant in world.tenants:
                if name == tenant.tenant.root or self._is_mapped(tenant, name, body):
                    return tenant
            if not target.name or world.below.of(NAMESPACES).get("", name) is not None:
                self.broke("I3", f"a write to the namespace {name}, which is no tenant's")
            return None
        if resource.namespaced:
            for tenant in world.tenants:
                if (
                    target.namespace in self._mapped(tenant)
                    or target.namespace == tenant.tenant.root
                ):
                    return tenant
            if world.below.of(NAMESPACES).get("", target.namespace) is not None:
                self.broke("I3", f"a write to {resource.plural} in {target.namespace}")
        return None

    def _is_mapped(self, tenant: SimulatedTenant, name: str, body: Any) -> bool:
        if name in self._mapped(tenant):
            return True
        owner = ownership.read_owner((body or {}).get("metadata") or {})
        return owner is not None and name == tenant.below(owner.namespace)

    def _mapped(self, tenant: SimulatedTenant) -> set[str]:
        """Return the super namespaces that are the tenant's by their record."""
        return {
            stored.name
            for stored in self.world.below.of(NAMESPACES).all()
            if (owner := ownership.read_owner(stored.decode()["metadata"])) is not None
            and owner.vc_uid == tenant.tenant.uid
        } | {tenant.below(space) for space in self._spaces(tenant)}

    def _spaces(self, tenant: SimulatedTenant) -> set[str]:
        found = [*tenant.alive.values(), *tenant.before.values()]
        there = {body["metadata"]["name"] for kind, body in found if kind is NAMESPACES}
        return there | tenant.spaces  # what is written to one that is gone is refused

    def _judge_event(self, tenant: SimulatedTenant, request: HttpRequest, body: Any) -> None:
        """I8, I6: no one is told of what is not theirs, nor in names of the super cluster."""
        if (body or {}).get("reason") == "SyncFailed":
            self.broke("I8", f"{tenant.side} is told of a refusal: {body.get('message')}")
        if tenant.tenant.root.encode() in (request.body or b""):
            self.broke("I6", f"{tenant.side} is told {body.get('message')}")

    def _judge_let_go(self, owner: SimulatedTenant, request: HttpRequest) -> None:
        """I3: what the syncer has let go is vc-manager's."""
        if owner.is_let_go:
            self.broke("I3", f"{request.where} of {owner.side}, which was let go")

    def _judge_canaries(self, owner: SimulatedTenant | None, request: HttpRequest) -> None:
        """I6: nothing of one tenant goes where another one is."""
        if owner is None or not request.body:
            return
        for other in self.world.tenants:
            if other is not owner and other.canary.encode() in request.body:
                self.broke("I6", f"{request.where} of {owner.side} carries {other.canary}")

    def _judge_delete(self, target: RequestSubject, body: Any) -> None:
        """I2: no delete of what has a live owner, or is not ours."""
        told = (body.get("preconditions") or {}).get("uid", "")
        if not told:
            self.broke("I2", f"a delete without a UID: {target}")
        stored = self.world.below.of(target.resource).get(target.namespace, target.name)
        if stored is None:
            return
        metadata = stored.decode()["metadata"]
        if told and metadata["uid"] != told:
            return  # refused by its precondition
        owner = ownership.read_owner(metadata)
        if owner is None:
            self.broke("I2", f"a delete of {target}, which is not ours")
            return
        tenant = self.world.of(owner.vc_uid)
        if tenant is None or target.resource not in STRICT or _is_placed_anew(stored, body):
            return
        if target.resource is PODS and self.world.stops_pods(tenant):
            return
        found = tenant.truth(owner.uid)
        revived = tenant.revived.get(owner.uid, float("-inf"))
        if found is None or self.world.loop.time() < revived + IN_FLIGHT_SECONDS:
            return
        resource, live = found
        is_marked = "deletionTimestamp" in live["metadata"] and resource is not NAMESPACES
        if resource is target.resource and not is_marked:
            self.broke("I2", f"a delete of {target}, whose tenant object {owner.uid} is live")

    def _judge_change(self, target: RequestSubject, request: HttpRequest, body: Any) -> None:
        """I2 for changes: what is another owner's stays as it is."""
        stored = self.world.below.of(target.resource).get(target.namespace, target.name)
        if stored is None or (target.resource is NAMESPACES and self._is_root(target.name)):
            return
        metadata = stored.decode()["metadata"]
        told = ((body.get("metadata") or {}) if isinstance(body, dict) else {}).get("uid")
        if told and told != metadata["uid"]:
            return
        if ownership.read_owner(metadata) is None:
            self.broke("I2", f"a {request.method} of {target}, which is not ours")

    def _is_root(self, name: str) -> bool:
        return any(name == tenant.tenant.root for tenant in self.world.tenants)

    def _sent_above(
        self, tenant: SimulatedTenant, target: RequestSubject, request: HttpRequest, body: Any
    ) -> None:
        self._judge_canaries(tenant, request)
        self._judge_let_go(tenant, request)
        if target.resource is EVENTS:
            self._judge_event(tenant, request, body)
        if request.method != "DELETE" or target.resource is not PODS:
            return
        told = (body.get("preconditions") or {}).get("uid", "")
        if not told:
            self.broke("I2", f"a delete in the tenant without a UID: {target}")
        stored = tenant.cluster.of(PODS).get(target.namespace, target.name)
        if stored is None:
            return
        pod = stored.decode()
        metadata = pod["metadata"]
        if told and metadata["uid"] != told:
            return
        twin = self.world.twin(tenant, PODS, metadata)
        if twin is None:
            return
        if "deletionTimestamp" not in metadata:
            is_misplaced = twin["spec"].get("nodeName") != pod["spec"].get("nodeName")
            if "deletionTimestamp" not in twin["metadata"] and not is_misplaced:
                self.broke("I2", f"a delete of the tenant pod {target.name}, whose twin runs")
        elif body.get("gracePeriodSeconds") == 0 and not self.world.sight.is_news(twin):
            self.broke("I2", f"the tenant pod {target.name} is let go while its twin is there")

    # After every step.

    def step(self) -> None:
        """I7: one super object for each tenant object, and for no other one later."""
        seen: dict[tuple[str, str, str], str] = {}
        before, self._looked_at = self._looked_at, self.world.below.revision
        for tenant in self.world.tenants if before != self._looked_at else ():
            for resource, body in self.world.owned(tenant):
                metadata = body["metadata"]
                if (
                    resource is SERVICE_ACCOUNTS
                    or wellknown.TOKEN_SECONDS in metadata["annotations"]
                    or (resource is CONFIG_MAPS and metadata["name"] in variables.NAMES)
                    or metadata["name"] in names.DEFAULT_POLICIES
                ):
                    continue
                place = f"{metadata.get('namespace', '')}/{metadata['name']}"
                key = (tenant.tenant.uid, resource.kind, metadata["annotations"][wellknown.UID])
                if self._owners.setdefault(metadata["uid"], key[2]) != key[2]:
                    self.broke("I7", f"{resource.kind} {place} is another one's now: {key[2]}")
                if seen.setdefault(key, place) != place:
                    self.broke(
                        "I7", f"{resource.kind} {key[2]} is below at {seen[key]} and {place}"
                    )
        for problem in self.world.loop.problems:
            if not any(word in problem for word in _OF_THE_DEAD):
                self.broke("process", f"nobody caught: {problem}")
        self.world.loop.problems.clear()
