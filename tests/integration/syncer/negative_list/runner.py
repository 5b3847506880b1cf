"""Runs the negative list in one world: a super cluster, a tenant, and the syncer between them.

First all that is refused, then its neighbours, so that the waiting is done once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubeio import Object
from kubeio.cache.reflector import Reflector, ReflectorOptions
from kubeio.cache.store import Entry, Store
from kubeio.errors import Invalid, NotFound
from syncer.model.tenant_view import DNS_OFFSET
from tenancy import names, wellknown
from tenancy.policies import TenantPolicySpec
from tenancy.resources import (
    EVENTS,
    INGRESS_CLASSES,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    STORAGE_CLASSES,
)
from tests.integration.syncer.control_planes import own_world
from tests.integration.syncer.negative_list import CASES
from tests.integration.syncer.negative_list.cases import (
    CLASS,
    LONG,
    NODE,
    OFFERED,
    OWN_CLASS,
    TIGHT,
    RefusedCase,
    pod,
)
from tests.integration.syncer.negative_list.rewrites import REWRITES
from tests.integration.syncer.world import SYNCER, SyncerWorld, policed
from tests.support.controlplane import LocalControlPlane
from tests.support.eventually import eventually

GATES = (
    "ClusterTrustBundle",
    "ClusterTrustBundleProjection",
    "CrossNamespaceVolumeDataSource",
    "GenericWorkload",
    "PodCertificateRequest",
)
"""Without them the tenant's API server leaves out a few of the fields that have to be refused."""
API_ARGS = {
    "feature-gates": ",".join(f"{gate}=true" for gate in GATES),
    "runtime-config": "certificates.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha2=true",
}
PATIENCE = 10.0
"""Seconds after which an Event that has not come counts as missing."""
QUIET = 3.0
"""Seconds in which no one may do anything."""


@dataclass(kw_only=True)
class CaseOutcome:
    """The result of one case."""

    uid: str = ""
    tenant_refusal: str = ""
    """What the tenant's API server said, when it did not take the object."""
    seconds: float | None = None
    """From before the object was sent to its Event on the tenant's watch."""
    told: list[Object] = field(default_factory=list)
    """The Events about it."""
    tried: list[str] = field(default_factory=list)
    """Writes in the super cluster that name it."""
    is_in_super: bool = False
    neighbour: str = ""
    """What is wrong with the neighbour. Empty: it went down."""


@dataclass(kw_only=True)
class RewriteOutcome:
    """The result of an object that is rewritten in the super cluster."""

    name: str
    uid: str
    twin: Object
    told: list[Object] = field(default_factory=list)


@dataclass(kw_only=True)
class ListResult:
    """The results of all cases."""

    outcomes: Mapping[str, CaseOutcome]
    rewritten: Mapping[int, RewriteOutcome]
    """By the number of the rewrite."""
    words: Mapping[str, str]
    """What `@words` in an expectation stand for."""
    heat: list[str]
    """Requests of the syncer while nothing happened."""
    hidden: tuple[str, ...]
    """Words that no tenant may read."""


class ListRun:
    """One go through the whole list."""

    def __init__(self, super_plane: LocalControlPlane, folder: Path) -> None:
        self._super_plane = super_plane
        self._folder = folder
        self._world: SyncerWorld
        self._space = ""
        self._began: dict[str, float] = {}
        self._seen: dict[str, float] = {}
        self._outcomes = {str(case): CaseOutcome() for case in CASES}
        self._rewritten: dict[int, RewriteOutcome] = {}
        self._heat: list[str] = []

    async def all(self) -> ListResult:
        """Do everything and say what came of it."""
        async with (
            own_world(self._super_plane, self._folder, API_ARGS) as self._world,
            self._under(OFFERED),
            self._world.syncer(),
            self._listening(),
        ):
            await self._prepare()
            await self._run_bare()
            await self._refused([case for case in CASES if not case.tight])
            await self._neighbours([case for case in CASES if not case.good_tight])
            await self._rewrite()
            await self._collect([case for case in CASES if not case.tight])
            words = await self._words()
            async with self._under(TIGHT):
                await self._refused([case for case in CASES if case.tight])
                await self._neighbours([case for case in CASES if case.good_tight])
                await self._collect([case for case in CASES if case.tight])
            hidden = (self._world.tenant.root, self._world.tenant.uid)
        return ListResult(
            outcomes=self._outcomes,
            rewritten=self._rewritten,
            words=words,
            heat=self._heat,
            hidden=hidden,
        )

    async def _words(self) -> dict[str, str]:
        world = self._world
        return {
            "@super": world.super_namespace(self._space),
            "@namespace": self._space,
            "@vc": world.tenant.uid,
            "@dns": str(world.session.view.service_range[DNS_OFFSET]),
        }

    @contextlib.asynccontextmanager
    async def _under(self, policy: TenantPolicySpec) -> AsyncIterator[None]:
        """Bind a policy, and wait until a syncer that runs works by it."""
        world = self._world
        async with policed(world, policy):
            if world.running:
                await eventually(
                    lambda: world.is_engaged() and world.session.view.policy == policy, within=30
                )
                await world.settled_namespace(self._space)
                await world.idle()
            yield

    @contextlib.asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        """Note when the first Event about each object comes."""
        store = Store()
        loop = asyncio.get_running_loop()

        def on_event(_: Entry | None, new: Entry | None, __: bool) -> None:
            event = new.decode() if new is not None else {}
            if event.get("reportingComponent") == wellknown.SYNCER:
                self._seen.setdefault(event["involvedObject"]["uid"], loop.time())

        store.subscribe(on_event)
        reflector = Reflector(
            self._world.tenant_client, EVENTS, store, ReflectorOptions(side="test")
        )
        task = asyncio.create_task(reflector.run())
        try:
            await reflector.wait_synced()
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _prepare(self) -> None:
        """Have what the neighbours name, and what only refused objects do."""
        world = self._world
        with contextlib.suppress(NotFound):
            await world.super_client.delete(NODES, NODE)
        await world.super_node(NODE)
        provisioner: Object = {"metadata": {"name": CLASS}, "provisioner": "csi.example"}
        controller: Object = {
            "metadata": {"name": CLASS},
            "spec": {"controller": "example.com/ingress"},
        }
        handler: Object = {
            "metadata": {"name": CLASS},
            "handler": "kata",
            "overhead": {"podFixed": {"cpu": "1m"}},
        }
        for resource, body in (
            (STORAGE_CLASSES, provisioner),
            (INGRESS_CLASSES, controller),
            (RUNTIME_CLASSES, handler),
        ):
            await world.super_client.create(resource, body)
            await eventually(lambda r=resource: world.tenant_client.get(r, CLASS))
        await world.tenant_client.create(
            RUNTIME_CLASSES, {"metadata": {"name": OWN_CLASS}, "handler": "runc"}
        )
        await world.tenant_client.create(
            PRIORITY_CLASSES, {"metadata": {"name": OWN_CLASS}, "value": 7}
        )
        await eventually(lambda: world.tenant_client.get(NODES, NODE))
        self._space = await world.namespace()
        await asyncio.sleep(0.5)  # the API server's admission follows classes by a watch
        await world.idle()

    def _body(self, body: Object, name: str) -> Object:
        text = json.dumps(body).replace("@namespace", self._space).replace("@name", name)
        found: Object = json.loads(text)
        return found

    def _where(self, case: RefusedCase) -> str:
        return self._space if case.resource.namespaced else ""

    async def _run_bare(self) -> None:
        """Create the super pods that a refused container is added to."""
        world = self._world
        for case in CASES:
            if case.ephemeral and not case.tenant_api_refuses:
                spec = {k: v for k, v in case.bad["spec"].items() if k != "ephemeralContainers"}
                name = self._name(case)
                bare = self._body({**case.bad, "spec": spec}, name)
                await world.tenant_client.create(PODS, bare, namespace=self._space)
                await eventually(lambda n=name: world.twin(PODS, self._space, n))

    async def _refused(self, cases: list[RefusedCase]) -> None:
        """Make all refused objects, wait for their Events, and see that no one goes on."""
        world = self._world
        for case in cases:
            for number, (resource, body) in enumerate(case.needs):
                await world.tenant_client.create(
                    resource,
                    self._body(body, f"needs-{case.number}-{number}"),
                    namespace=self._space if resource.namespaced else "",
                )
            if case.mounted:
                await self._mount(case.mounted, self._name(case), f"mounts-{case.number}-bad")
        await world.idle()
        super_mark = world.mark("super")
        for case in cases:
            await self._make_refused(case)
        told = [self._outcomes[str(case)] for case in cases if not case.tenant_api_refuses]
        with contextlib.suppress(AssertionError):  # each case says for itself what is missing
            await eventually(lambda: all(o.uid in self._seen for o in told), within=PATIENCE)
        await world.idle()
        for outcome in told:
            if outcome.uid in self._seen:
                outcome.seconds = self._seen[outcome.uid] - self._began[outcome.uid]
        await self._watch_heat(cases)
        writes = world.writes("super", super_mark)
        for case in cases:
            name = self._name(case)
            mine = [repr(write) for write in writes if write.name == name]
            self._outcomes[str(case)].tried = mine

    async def _mount(self, kind: str, name: str, pod_name: str) -> None:
        source = {"name" if kind == "configMap" else "secretName": name}
        body = self._body(pod({"volumes": [{"name": "v", kind: source}]}), pod_name)
        await self._world.tenant_client.create(PODS, body, namespace=self._space)

    def _name(self, case: RefusedCase) -> str:
        if case.name == "@long":
            return LONG
        return case.name or f"bad-{case.number}"

    async def _make_refused(self, case: RefusedCase) -> None:
        world, outcome = self._world, self._outcomes[str(case)]
        name, loop = self._name(case), asyncio.get_running_loop()
        body, began = self._body(case.bad, name), loop.time()
        try:
            if case.ephemeral and not case.tenant_api_refuses:
                made = await world.tenant_client.patch(
                    PODS,
                    name,
                    {"spec": {"ephemeralContainers": body["spec"]["ephemeralContainers"]}},
                    kind="strategic",
                    namespace=self._space,
                    subresource="ephemeralcontainers",
                )
            elif case.needs:  # the API server follows what was made by a watch
                await eventually(lambda: self._is_taken(case, body))
                began = loop.time()
                made = await world.tenant_client.create(
                    case.resource, body, namespace=self._where(case)
                )
            else:
                made = await world.tenant_client.create(
                    case.resource, body, namespace=self._where(case)
                )
        except Invalid as problem:
            outcome.tenant_refusal = str(problem)
            return
        outcome.uid = made["metadata"]["uid"]
        self._began[outcome.uid] = began
        await self._say_status(case, name)

    async def _is_taken(self, case: RefusedCase, body: Object) -> bool:
        """Return whether the tenant's API server would take an object now."""
        await self._world.tenant_client.create(
            case.resource, body, namespace=self._where(case), dry_run=True
        )
        return True

    async def _say_status(self, case: RefusedCase, name: str) -> None:
        if case.status is not None:
            await self._world.tenant_client.patch(
                case.resource,
                name,
                {"status": case.status},
                namespace=self._space,
                subresource="status",
            )

    async def _watch_heat(self, cases: list[RefusedCase]) -> None:
        """Count what the syncer asks of either side while nothing happens.

        Another policy has others of the list taken away. Then only these cases count.
        """
        planes = (self._world.super_plane, self._world.tenant_plane)
        mine = {self._name(case) for case in cases}
        before = [plane.audit_mark() for plane in planes]
        await asyncio.sleep(QUIET)
        for plane, since in zip(planes, before, strict=True):
            for event in plane.audit_events(since):
                is_mine = not cases[0].tight or (event.get("objectRef") or {}).get("name") in mine
                if is_mine and _is_heat(event):
                    self._heat.append(f"{plane.name}: {event['verb']} {event['requestURI']}")

    async def _neighbours(self, cases: list[RefusedCase]) -> None:
        """Make the neighbours, each body once, and wait for their twins."""
        made: dict[str, list[RefusedCase]] = defaultdict(list)
        for case in cases:
            key = json.dumps([case.resource.kind, case.good, case.ephemeral, case.status])
            made[key].append(case)
        names_of: dict[str, str] = {}
        for key, users in made.items():
            case = users[0]
            names_of[key] = name = f"good-{case.number}"
            problem = await self._make_neighbour(case, name)
            for user in users:
                self._outcomes[str(user)].neighbour = problem
        for key, users in made.items():
            case, name = users[0], names_of[key]
            if self._outcomes[str(case)].neighbour:
                continue
            try:
                await eventually(lambda c=case, n=name: self._is_in_super(c, n), within=PATIENCE)
            except AssertionError as problem:
                for user in users:
                    self._outcomes[str(user)].neighbour = str(problem)

    async def _make_neighbour(self, case: RefusedCase, name: str) -> str:
        world, body = self._world, self._body(case.good, name)
        more = body["spec"].pop("ephemeralContainers", None) if case.ephemeral else None
        try:
            await world.tenant_client.create(case.resource, body, namespace=self._where(case))
            if case.mounted:
                await self._mount(case.mounted, name, f"mounts-{case.number}-good")
            if more is not None and not case.tenant_api_refuses:
                await eventually(lambda: world.twin(PODS, self._space, name))
                await world.tenant_client.patch(
                    PODS,
                    name,
                    {"spec": {"ephemeralContainers": more}},
                    kind="strategic",
                    namespace=self._space,
                    subresource="ephemeralcontainers",
                )
        except Invalid as problem:
            return f"the tenant's API server refuses it: {problem}"
        await self._say_status(case, name)
        return ""

    async def _is_in_super(self, case: RefusedCase, name: str, uid: str = "") -> bool:
        """Return whether there is a twin, of the very object with a UID."""
        world = self._world
        try:
            if case.resource.namespaced:
                twin = await world.twin(case.resource, self._space, name)
            else:
                super_name = names.build_volume_name(world.tenant.uid, name)
                twin = await world.super_client.get(case.resource, super_name)
        except NotFound:
            return False
        annotations = twin["metadata"]["annotations"]
        assert annotations[wellknown.VC_UID] == world.tenant.uid
        if case.ephemeral and not case.tenant_api_refuses:
            return bool(twin["spec"].get("ephemeralContainers"))
        return not uid or annotations[wellknown.UID] == uid

    async def _rewrite(self) -> None:
        """Make what goes down as something else."""
        world = self._world
        for each in REWRITES:
            name = f"rewrite-{each.number}"
            body = self._body(each.body, name)
            made = await world.tenant_client.create(each.resource, body, namespace=self._space)
            uid = made["metadata"]["uid"]
            self._rewritten[each.number] = RewriteOutcome(name=name, uid=uid, twin={})
        for each in REWRITES:
            written = self._rewritten[each.number]
            with contextlib.suppress(AssertionError):  # each says for itself what is missing
                written.twin = await eventually(
                    lambda r=each.resource, n=written.name: world.twin(r, self._space, n),
                    within=PATIENCE,
                )
        await world.idle()

    async def _collect(self, cases: list[RefusedCase]) -> None:
        found = [
            event for space in (self._space, "default") for event in await self._world.events(space)
        ]
        by_uid: dict[str, list[Object]] = defaultdict(list)
        for event in found:
            by_uid[event["involvedObject"]["uid"]].append(event)
        if not cases[0].tight:
            for written in self._rewritten.values():
                written.told = by_uid.get(written.uid, [])
        for case in cases:
            outcome = self._outcomes[str(case)]
            outcome.told = by_uid.get(outcome.uid, [])
            outcome.is_in_super = await self._is_in_super(case, self._name(case), outcome.uid)


def _is_heat(event: Mapping[str, Any]) -> bool:
    """Return whether a request is the syncer's, and no lease, no watch and no mark of the store."""
    if event["user"]["username"] != SYNCER or event["verb"] == "watch":
        return False
    at = event.get("objectRef") or {}
    own = ("leases", "leases.coordination.k8s.io")
    is_mark = "virtual-cluster-store" in event["requestURI"] or at.get("name") == "kube-system"
    is_root = at.get("resource") == NAMESPACES.plural and at.get("name", "").startswith("default-")
    return at.get("resource") not in own and not is_mark and not is_root
