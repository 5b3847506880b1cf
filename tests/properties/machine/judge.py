"""What must hold: at every request that the syncer sends, after every step, and at rest.

Owns the invariants I1 to I7 of the reference (`reliability-security.md`, 4b) and looks at the
clusters themselves, never at the syncer's caches. A break is remembered with its first words; the
run ends at the next step.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import orjson

from kubeio.wire import Request
from tenancy import marks, names, ownership
from tenancy.resources import (
    CONFIG_MAPS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    VIRTUAL_CLUSTERS,
    Resource,
)

if TYPE_CHECKING:
    from tests.properties.machine.world import TenantSide, World

Object = dict[str, Any]

_NAMES = re.compile(r"[0-9a-f]{8}-[-0-9a-f]+|[-.\w]*\d[-.\w]*|\S*/\S*|\b[abc]\b|canary\d-\d")
STRICT = (NAMESPACES, PODS, SERVICES)
"""Kinds whose twins stay for as long as their tenant objects live."""
SYNCED = (NAMESPACES, PODS, SERVICES, CONFIG_MAPS, SECRETS)
SYSTEM = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
TERMINAL = frozenset({"Succeeded", "Failed"})


class Break(NamedTuple):
    """Something that must not be."""

    rule: str
    text: str

    @property
    def kind(self) -> str:
        """The rule and the words, without names and numbers: whether two breaks are alike."""
        return f"{self.rule} {_NAMES.sub('', self.text)}"


class Target(NamedTuple):
    """What a request is about."""

    resource: Resource
    namespace: str
    name: str
    subresource: str


class Judge:
    """Looks at one world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.breaks: list[Break] = []
        self.writes: Counter[str] = Counter()
        """Writes of the syncer, its Lease's apart."""
        self.last_write = ""
        self.requests = 0

    def broke(self, rule: str, text: str) -> None:
        """Remember that a rule was broken."""
        self.breaks.append(Break(rule, f"{self.world.loop.time():.3f} s: {text}"))

    def fell(self, replica: str, problem: BaseException) -> None:
        """A process of the syncer fell over."""
        self.broke("process", f"{replica} ended by itself: {problem!r}")

    # At every request, when it is sent.

    def sent(self, side: str, request: Request) -> None:
        """Judge a request of the syncer's."""
        self.requests += 1
        world = self.world
        target = self._target(side, request.target)
        what = f"{side} {request.method} {urlsplit(request.target).path}"
        world.trace.append(f"{world.loop.time():.6f} {what} {len(request.body or b'')}")
        if request.method == "GET" or target is None or target.resource is LEASES:
            return
        body: Any = orjson.loads(request.body) if request.body else {}
        if not self._is_in_vain(side, target, request, body):
            self.writes[side] += 1
            self.last_write = what
        if side == "super":
            self._sent_below(target, request, body)
        else:
            self._sent_above(world.tenants[int(side[6:])], target, request, body)

    def _is_in_vain(self, side: str, target: Target, request: Request, body: Any) -> bool:
        """Tell whether a create runs into a stranger; it is tried once a minute for ever."""
        if request.method != "POST" or side != "super" or target.name:
            return False
        name = body["metadata"].get("name", "")
        stored = self.world.below.of(target.resource).get(target.namespace, name)
        return stored is not None and ownership.owner_of(stored.decode()["metadata"]) is None

    def _target(self, side: str, target: str) -> Target | None:
        api = self.world.apis[0 if side == "super" else 1 + int(side[6:])]
        place = api._place(urlsplit(target).path)
        if place is None:
            return None
        return Target(place.collection.resource, place.namespace, place.name, place.subresource)

    def _sent_below(self, target: Target, request: Request, body: Any) -> None:
        owner = self._judge_place(target, body)
        self._judge_canaries(owner, request)
        if request.method == "DELETE":
            self._judge_delete(target, body)
        elif request.method in ("PUT", "PATCH") and target.resource in SYNCED:
            self._judge_change(target, request, body)

    def _judge_place(self, target: Target, body: Any) -> TenantSide | None:
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
            self.broke("I3", f"a write to {resource.plural} in {target.namespace}")
        return None

    def _is_mapped(self, tenant: TenantSide, name: str, body: Any) -> bool:
        if name in self._mapped(tenant):
            return True
        owner = ownership.owner_of((body or {}).get("metadata") or {})
        return owner is not None and name == self._below(tenant, owner.namespace)

    def _below(self, tenant: TenantSide, space: str) -> str:
        return names.super_namespace(tenant.tenant.root, tenant.tenant.uid, space)

    def _mapped(self, tenant: TenantSide) -> set[str]:
        """Return the super namespaces that are the tenant's by their record."""
        return {
            stored.name
            for stored in self.world.below.of(NAMESPACES).all()
            if (owner := ownership.owner_of(stored.decode()["metadata"])) is not None
            and owner.vc_uid == tenant.tenant.uid
        } | {self._below(tenant, space) for space in self._spaces(tenant)}

    def _spaces(self, tenant: TenantSide) -> set[str]:
        found = [*tenant.alive.values(), *tenant.before.values()]
        return {body["metadata"]["name"] for kind, body in found if kind is NAMESPACES}

    def _judge_canaries(self, owner: TenantSide | None, request: Request) -> None:
        """I6: nothing of one tenant goes where another one is."""
        if owner is None or not request.body:
            return
        for other in self.world.tenants:
            if other is not owner and other.canary.encode() in request.body:
                self.broke("I6", f"{request.where} of {owner.side} carries {other.canary}")

    def _judge_delete(self, target: Target, body: Any) -> None:
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
        owner = ownership.owner_of(metadata)
        if owner is None:
            self.broke("I2", f"a delete of {target}, which is not ours")
            return
        tenant = self.world.of(owner.vc_uid)
        if tenant is None or target.resource not in STRICT:
            return
        found = tenant.truth(owner.uid)
        if found is None:
            return
        resource, live = found
        is_marked = "deletionTimestamp" in live["metadata"] and resource is not NAMESPACES
        if resource is target.resource and not is_marked:
            self.broke("I2", f"a delete of {target}, whose tenant object {owner.uid} is live")

    def _judge_change(self, target: Target, request: Request, body: Any) -> None:
        """I2 for changes: what is somebody else's stays as it is."""
        stored = self.world.below.of(target.resource).get(target.namespace, target.name)
        if stored is None or (target.resource is NAMESPACES and self._is_root(target.name)):
            return
        metadata = stored.decode()["metadata"]
        told = ((body.get("metadata") or {}) if isinstance(body, dict) else {}).get("uid")
        if told and told != metadata["uid"]:
            return
        if ownership.owner_of(metadata) is None:
            self.broke("I2", f"a {request.method} of {target}, which is not ours")

    def _is_root(self, name: str) -> bool:
        return any(name == tenant.tenant.root for tenant in self.world.tenants)

    def _sent_above(self, tenant: TenantSide, target: Target, request: Request, body: Any) -> None:
        self._judge_canaries(tenant, request)
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
        twin = self._twin(tenant, PODS, metadata)
        if twin is None:
            return
        if "deletionTimestamp" not in metadata:
            is_misplaced = twin["spec"].get("nodeName") != pod["spec"].get("nodeName")
            if "deletionTimestamp" not in twin["metadata"] and not is_misplaced:
                self.broke("I2", f"a delete of the tenant pod {target.name}, whose twin runs")
        elif body.get("gracePeriodSeconds") == 0:
            self.broke("I2", f"the tenant pod {target.name} is let go while its twin is there")

    def _twin(self, tenant: TenantSide, resource: Resource, metadata: Object) -> Object | None:
        below = self._below(tenant, metadata.get("namespace") or metadata["name"])
        name = metadata["name"]
        if resource is NAMESPACES:
            below, name = "", self._below(tenant, metadata["name"])
        elif resource is CONFIG_MAPS and name == "kube-root-ca.crt":
            return None
        stored = self.world.below.of(resource).get(below, name)
        if stored is None:
            return None
        body = stored.decode()
        owner = ownership.owner_of(body["metadata"])
        is_own = owner is not None and owner.vc_uid == tenant.tenant.uid
        return body if is_own and owner is not None and owner.uid == metadata["uid"] else None

    # After every step.

    def step(self) -> None:
        """I7: one super object for each tenant object."""
        seen: dict[tuple[str, str, str], str] = {}
        for tenant in self.world.tenants:
            for resource, body in self.world.owned(tenant):
                metadata = body["metadata"]
                if resource is SERVICE_ACCOUNTS or marks.TOKEN_SECONDS in metadata["annotations"]:
                    continue
                place = f"{metadata.get('namespace', '')}/{metadata['name']}"
                key = (tenant.tenant.uid, resource.kind, metadata["annotations"][marks.UID])
                if seen.setdefault(key, place) != place:
                    self.broke(
                        "I7", f"{resource.kind} {key[2]} is below at {seen[key]} and {place}"
                    )
        for problem in self.world.loop.problems:
            if "the client is not open" not in problem:  # said by what is left of a killed process
                self.broke("process", f"nobody caught: {problem}")
        self.world.loop.problems.clear()

    # At rest.

    def rest(self) -> list[Break]:
        """Return what is not as it must be when nothing is left to do: I1, I4, and orphans."""
        found: list[Break] = []
        for tenant in self.world.tenants:
            for resource, body in list(tenant.alive.values()):
                if resource in SYNCED:
                    found += self._missing(tenant, resource, body)
            found += self._orphans(tenant)
        return found

    def _orphans(self, tenant: TenantSide) -> list[Break]:
        found = []
        for resource, body in self.world.owned(tenant):
            metadata = body["metadata"]
            if marks.TOKEN_SECONDS in metadata["annotations"] or not _is_labelled(metadata):
                continue  # without our labels it is seen by nobody: a known hazard of the caches
            uid = metadata["annotations"][marks.UID]
            if uid not in tenant.alive:
                text = f"{resource.kind} {metadata['name']}: its tenant object {uid} is gone"
                found.append(Break("I1", f"{tenant.side}: orphan: {text}"))
            elif "deletionTimestamp" in metadata:
                found.append(Break("I1", f"{tenant.side}: {metadata['name']} goes for ever"))
        return found

    def _missing(self, tenant: TenantSide, resource: Resource, body: Object) -> list[Break]:
        metadata = body["metadata"]
        title = f"{tenant.side}: {resource.kind} {metadata.get('namespace', '')}/{metadata['name']}"
        twin = self._twin(tenant, resource, metadata)
        if "deletionTimestamp" in metadata:
            if metadata.get("finalizers"):
                return []
            return [Break("I4", f"{title} is still on its way out")]
        if self._is_taken(tenant, resource, metadata):
            return []
        is_wanted = self._is_wanted(tenant, resource, body)
        if twin is None:
            return [Break("I1", f"{title} has no twin")] if is_wanted else []
        if not is_wanted and not _is_labelled(twin["metadata"]):
            return []  # seen by nobody, and nobody asks for it: the same hazard
        problems = [Break("I1", f"{title}: {text}") for text in _differences(resource, body, twin)]
        if resource is PODS:
            problems += [Break("I4", f"{title}: {text}") for text in self._told(tenant, body, twin)]
        return problems

    def _is_taken(self, tenant: TenantSide, resource: Resource, metadata: Object) -> bool:
        """Tell whether a stranger has the name below."""
        if resource is NAMESPACES:
            return False
        below = self._below(tenant, metadata["namespace"])
        stored = self.world.below.of(resource).get(below, metadata["name"])
        if stored is not None and ownership.owner_of(stored.decode()["metadata"]) is None:
            return True
        if resource is not PODS:
            return False
        strangers = {
            (kind, found.name)
            for kind in (CONFIG_MAPS, SECRETS)
            for found in self.world.below.of(kind).all()
            if found.namespace == below and ownership.owner_of(found.decode()["metadata"]) is None
        }
        pod = tenant.alive[metadata["uid"]][1]
        return bool(strangers & _needs(pod))

    def _is_wanted(self, tenant: TenantSide, resource: Resource, body: Object) -> bool:
        metadata = body["metadata"]
        if resource is NAMESPACES:
            return True
        if resource is SERVICES:
            return (metadata["namespace"], metadata["name"]) != ("default", "kubernetes")
        if resource is PODS:
            return body["status"].get("phase") not in TERMINAL
        if metadata["name"] == "kube-root-ca.crt":
            return False
        return any(
            kind is PODS
            and pod["metadata"]["namespace"] == metadata["namespace"]
            and "deletionTimestamp" not in pod["metadata"]
            and pod["status"].get("phase") not in TERMINAL
            and (resource, metadata["name"]) in _needs(pod)
            for kind, pod in tenant.alive.values()
        )

    def _told(self, tenant: TenantSide, pod: Object, twin: Object) -> list[str]:
        """I4: what the tenant reads of a pod is what its twin says."""
        found = []
        above, below = pod["status"], twin["status"]
        for field in ("phase", "podIP"):
            if above.get(field) != below.get(field):
                found.append(f"status.{field} is {above.get(field)}, below {below.get(field)}")
        node = twin["spec"].get("nodeName")
        if pod["spec"].get("nodeName") != node:
            found.append(f"the node is {pod['spec'].get('nodeName')}, below {node}")
        elif node and tenant.cluster.of(NODES).get("", node) is None:
            found.append(f"its node {node} is not in the tenant")
        ready = [_ready(status) for status in (above, below)]
        if ready[0] != ready[1]:
            found.append(f"Ready is {ready[0]}, below {ready[1]}")
        return found


def _ready(status: Object) -> str:
    found = [each["status"] for each in status.get("conditions") or () if each["type"] == "Ready"]
    return found[0] if found else ""


def _is_labelled(metadata: Object) -> bool:
    return (metadata.get("labels") or {}).get(marks.CONTROLLED) == "true"


def _needs(pod: Object) -> set[tuple[Resource, str]]:
    found: set[tuple[Resource, str]] = set()
    for volume in pod["spec"].get("volumes") or ():
        if "configMap" in volume:
            found.add((CONFIG_MAPS, volume["configMap"]["name"]))
        if "secret" in volume:
            found.add((SECRETS, volume["secret"]["secretName"]))
    return found


def _differences(resource: Resource, body: Object, twin: Object) -> list[str]:
    """I1: return in what a twin is not what its tenant object says."""
    found = []
    if not _is_labelled(twin["metadata"]):
        return ["the twin lacks our labels"]
    for key, value in (body["metadata"].get("labels") or {}).items():
        if "/" not in key and (twin["metadata"].get("labels") or {}).get(key) != value:
            found.append(f"label {key} is not {value} below")
    if resource in (CONFIG_MAPS, SECRETS):
        if (body.get("data") or {}) != (twin.get("data") or {}):
            found.append("the data are other ones below")
    elif resource is SERVICES:
        for field in ("selector", "clusterIP"):
            if body["spec"].get(field) != twin["spec"].get(field):
                found.append(f"spec.{field} is another one below")
        if _ports(body) != _ports(twin):
            found.append("the ports are other ones below")
    elif resource is PODS:
        images = [[each["image"] for each in pod["spec"]["containers"]] for pod in (body, twin)]
        if images[0] != images[1]:
            found.append(f"the images are {images[0]}, below {images[1]}")
    return found


def _ports(service: Object) -> list[Any]:
    return [each["port"] for each in service["spec"].get("ports") or ()]
