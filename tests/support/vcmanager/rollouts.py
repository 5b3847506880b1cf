"""A ClusterVersion with its tenants in memory, as far as a rollout reads and writes them."""

import copy
from datetime import datetime, timedelta
from typing import Any

from kubeio import errors
from tenancy import conditions, wellknown
from tenancy.ownership import Tenant
from tenancy.resources import CLUSTER_VERSIONS
from tenancy.specs import parse_cluster_version, parse_cluster_version_status
from tests.support.vcmanager.factories import NOW, RecordedEventRows, fake_means
from vcmanager.phases.waves import control_plane_change, slots
from vcmanager.phases.waves.control_plane_change import ControlPlaneChange
from vcmanager.reconcilers import rollout
from vcmanager.runtime.context import ReconcileContext
from vcmanager.runtime.keys import ReconcileKey, build_rollout_key
from vcmanager.runtime.status import ReconcileStatus

VERSION = "v1.36"


class RolloutApi:
    """The super cluster's API for one ClusterVersion and its VirtualClusters."""

    def __init__(self, count: int, **spec: Any) -> None:
        self.version: dict[str, Any] = {
            "metadata": {"name": VERSION, "uid": "v", "resourceVersion": "1", "generation": 1},
            "spec": {"kubernetesVersion": "1.36", "rollout": spec},
            "status": {},
        }
        self.tenants: dict[str, dict[str, Any]] = {
            f"t{number}": {
                "metadata": {"name": f"t{number}", "namespace": "default", "uid": f"t{number}"},
                "spec": {"clusterVersionName": VERSION},
                "status": {"phase": "Running", "version": "v1.36.0", "conditions": []},
            }
            for number in range(count)
        }
        self.lists = 0

    async def get(self, resource: Any, name: str, **_: Any) -> dict[str, Any]:
        """Return the ClusterVersion."""
        if resource is not CLUSTER_VERSIONS or name != VERSION or not self.version:
            raise errors.NotFound(f"there is no {name}")
        return copy.deepcopy(self.version)

    async def list(self, _resource: Any, **_: Any) -> dict[str, Any]:
        """Return the VirtualClusters."""
        self.lists += 1
        return {"items": copy.deepcopy(list(self.tenants.values()))}

    async def patch(self, _resource: Any, _name: str, body: dict[str, Any], **_: Any) -> None:
        """Write the status, if the resourceVersion is the present one."""
        number = self.version["metadata"]["resourceVersion"]
        if body["metadata"]["resourceVersion"] != number:
            raise errors.Conflict("the object was changed")
        self.version["metadata"]["resourceVersion"] = str(int(number) + 1)
        self.version["status"] |= copy.deepcopy(body["status"])

    @property
    def marked(self) -> set[str]:
        """Return the UIDs of the tenants with a slot."""
        return {slot.uid for slot in parse_cluster_version_status(self.version).rollout.slots}

    @property
    def condition(self) -> dict[str, Any]:
        """Return the condition RolledOut."""
        (found,) = self.version["status"]["conditions"]
        assert found["type"] == wellknown.ROLLED_OUT
        return dict(found)


class RolloutStage:
    """Tenants that work as their reconciles do, with control planes of one number each."""

    def __init__(self, count: int, **spec: Any) -> None:
        self.api = RolloutApi(count, **spec)
        self.now = NOW
        self.wanted = 2
        self.running = dict.fromkeys(self.api.tenants, 1)
        """Generation of each tenant's control plane."""
        self.down: set[str] = set()
        """Tenants that are not ready."""
        self.events = RecordedEventRows()
        self.woken: list[ReconcileKey] = []

    @property
    def means(self) -> ReconcileContext:
        """Return new means each time, as a restarted process has them."""
        made = fake_means(self.api, recorder=self.events, wake=self.woken.append)  # type: ignore[arg-type]
        object.__setattr__(made, "now", lambda: self.now)
        return made

    def pass_time(self, **length: float) -> datetime:
        """Move the clock."""
        self.now += timedelta(**length)
        return self.now

    async def work(self, name: str) -> ControlPlaneChange:
        """Reconcile one tenant: its change takes it down until `come_back`."""
        body = self.api.tenants[name]
        status = parse_cluster_version_status(self.api.version).rollout
        spec = parse_cluster_version(self.api.version).rollout
        candidate = slots.Candidate(
            tenant=Tenant(name=name, namespace="default", uid=name, root=f"root-{name}"),
            version_name=VERSION,
            spec=spec,
            rollout=status,
            is_new=False,
            is_broken=slots.is_broken(body, self.now),
        )
        means = self.means
        change, message = ControlPlaneChange.NONE, "up to date"
        if self.running[name] != self.wanted:
            message = await slots.acquire_slot(means, candidate)
            change = ControlPlaneChange.WAITING if message else ControlPlaneChange.ROLLING_OUT
            if not message:
                self.running[name] = self.wanted
                self.down.add(name)
        elif candidate.has_slot and name in self.down:
            change, message = ControlPlaneChange.ROLLING_OUT, "rolling out"
        self._report(body, name, change, message)
        if candidate.has_slot and name not in self.down and change is ControlPlaneChange.NONE:
            await slots.release_slot(means, VERSION, name)
        return change

    def _report(
        self, body: dict[str, Any], name: str, change: ControlPlaneChange, message: str
    ) -> None:
        report = ReconcileStatus(generation=1, now=conditions.format_time(self.now))
        control_plane_change.set_condition(report, change, message or "changing")
        blocked = ("Down", "not ready") if name in self.down else None
        report.summarize(blocked=blocked, is_stalled=False, is_deleting=False, old=body["status"])
        body["status"] |= report.build_status(body["status"])

    async def work_all(self) -> None:
        """Reconcile every tenant, then the rollout."""
        for name in sorted(self.api.tenants):
            await self.work(name)
        await self.reconcile_rollout()

    async def reconcile_rollout(self) -> Any:
        """Reconcile the rollout."""
        return await rollout.reconcile_rollout(self.means, build_rollout_key(VERSION))

    def come_back(self, *names: str) -> None:
        """Let tenants become ready."""
        self.down -= set(names)
