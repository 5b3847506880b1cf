"""A tenant whose grants of targets are followed, and targets that the test makes ready."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

from syncer.clusters.super_cluster import SuperCluster
from syncer.clusters.target_cluster import TargetCluster
from syncer.lifecycle.target_manager import TargetManager
from syncer.lifecycle.target_sessions import TargetSessions
from syncer.tenants.session_registry import SessionRegistry
from syncer.tenants.target_session import TargetSession
from tenancy.super_clusters import SuperClusterSpec
from tests.support.syncer.idle import idle
from tests.support.syncer.sessions import BODY, TENANT, RecordingClient, SessionWorld, put
from tests.support.syncer.two_clusters import pod_loss_guard_of


class TargetWorldOfTenant:
    """One tenant, and targets that the test makes ready."""

    def __init__(self) -> None:
        self.world = SessionWorld(is_split=True)
        self.targets = TargetManager(self.world.super_cluster, subscribe_events=lambda _: None)
        self.registry = SessionRegistry()
        self.registry.add(self.world.session)
        self.sessions = self.registry.sessions
        self.target_sessions = TargetSessions(
            self.world.link, self.targets, self.registry, self._made
        )
        self.world.link.is_ready = True
        root = {"metadata": {"name": TENANT.root, "resourceVersion": "7"}}
        self.world.below.has("Namespace", TENANT.root, root)
        self.revision = 100

    def _made(self, target: TargetCluster) -> TargetSession:
        slice_ = ipaddress.ip_network("10.96.8.0/22")
        return TargetSession(self.world.link, target.cluster, tenant_slice=slice_, target=target)

    def joined(self, name: str = "c2") -> None:
        """Declare a SuperCluster."""
        metadata = {"name": name, "uid": f"{name}-uid", "resourceVersion": "1"}
        put(self.world.super_cluster.super_clusters, {"metadata": metadata, "spec": {}})

    def ready(self, name: str = "c2") -> Any:
        """Have a target whose caches are complete."""
        cluster = SuperCluster(RecordingClient(), name=name, registration="r1")  # type: ignore[arg-type]
        target: Any = SimpleNamespace(
            name=name, registration="r1", cluster=cluster, problem="", watch_problem="",
            is_ready=True,
            spec=SuperClusterSpec(),
            pod_loss_guard=pod_loss_guard_of(name),
            get_unreachable_seconds=lambda: 0.0,
        )  # fmt: skip
        self.targets.targets[name] = target
        self.targets._notify()
        return target

    async def declare(self, *granted: str, named: tuple[str, ...] = ()) -> None:
        """Write the VirtualCluster: what is granted, and what its status names."""
        self.revision += 1
        body = {
            **BODY,
            "metadata": {**BODY["metadata"], "resourceVersion": str(self.revision)},  # type: ignore[dict-item]
            "spec": {**BODY["spec"], "targets": [{"name": name} for name in granted]},  # type: ignore[dict-item]
            "status": {**BODY["status"], "targets": [self.phase(name, granted) for name in named]},  # type: ignore[dict-item]
        }
        put(self.world.super_cluster.virtual_clusters, body)
        self.target_sessions.wake()
        await idle()

    def phase(self, name: str, granted: tuple[str, ...]) -> dict[str, Any]:
        """Return the conditions of a healthy target, or of one that was never connected."""
        target: Any = self.targets.get_ready(name)
        phase = "Away" if target is None or target.get_unreachable_seconds() else "Granted"
        pods = self.world.link.assignments.count_pods(name)
        return {"name": name, "phase": phase if name in granted else "Draining", "pods": pods}

    def said(self) -> list[list[str]]:
        """Return each list of targets that was written."""
        bodies = [body["status"] for body in self.world.below.bodies if "status" in body]
        return [[each["name"] for each in b["targets"]] for b in bodies if "targets" in b]

    @property
    def there(self) -> list[str]:
        """Where the tenant has sessions."""
        assert {each.name for each in self.world.link.sessions} == {
            name for name, found in self.sessions.items() if found
        }
        return sorted(name for name, found in self.sessions.items() if found)


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[TargetWorldOfTenant]:
    """Have a target_world whose grants are followed for the length of a test."""
    made = TargetWorldOfTenant()
    made.joined()
    await made.declare()
    task = asyncio.ensure_future(made.target_sessions.run())
    await idle()
    yield made
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert made.there == ["home"], "nothing is left of it"
    assert made.targets._handlers == []


def pod_of(target_world: TargetWorldOfTenant, **metadata: Any) -> Any:
    """Put a pod into the tenant's cache."""
    own = {"name": "p", "namespace": "web", "uid": "u", "resourceVersion": "50", **metadata}
    return put(target_world.world.link.stores["Pod"], {"kind": "Pod", "metadata": own, "spec": {}})
