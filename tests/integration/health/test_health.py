"""Health of our objects in Flux, Helm and Argo CD, judged by their own packages.

The program `health` of the testbed contains kstatus of Flux, and the health check of Argo CD with
its Lua. It reads the script of docs/gitops.md. The states are built by the code that writes them.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tenancy import resources, super_clusters, wellknown
from tenancy.resources import Resource
from tools.packages import ROOT
from tools.testbed.artifacts import binaries
from tools.walks.page import steps
from vcmanager.phases.waves.admission import Admission
from vcmanager.plan.integrations import control_planes
from vcmanager.reconcilers import rollout
from vcmanager.runtime.status import ReconcileStatus
from vcmanager.snapshots import snapshot_steps
from vcmanager.snapshots.snapshot_steps import SaveDecision
from vcmanager.targets.super_cluster_conditions import TargetConditions

NOW = "2026-03-01T12:00:00Z"
NEW: Mapping[str, Any] = {"observedGeneration": -1}
"""Default of the status, which the API server adds."""
COMPONENTS = (
    wellknown.CERTIFICATES_READY,
    wellknown.ETCD_READY,
    wellknown.API_SERVER_READY,
    wellknown.CONTROLLER_MANAGER_READY,
    wellknown.DNS_READY,
)


def tenant_status(
    *,
    blocked: tuple[str, str] | None = None,
    is_stalled: bool = False,
    broken: str = "",
    paused: bool = False,
) -> dict[str, Any]:
    """Return the status of a VirtualCluster, as a reconcile writes it."""
    report = ReconcileStatus(generation=1, now=NOW)
    if paused:
        report.set_condition(wellknown.PAUSED, "True", "PausedUntil", "It is paused.")
    if blocked is None:
        for kind in COMPONENTS:
            is_broken = kind == broken
            report.set_condition(
                kind, "False" if is_broken else "True", "Why", "m", is_failure=is_broken
            )
    report.summarize(blocked=blocked, is_stalled=is_stalled, is_deleting=False)
    return report.build_status({})


def snapshot_status(decision: SaveDecision) -> dict[str, Any]:
    listed = snapshot_steps.build_conditions(decision, now=NOW, generation=1)
    return {"phase": decision.phase, "observedGeneration": 1, "conditions": listed}


def target_status(reason: str = "") -> dict[str, Any]:
    verdict = TargetConditions()
    if reason:
        verdict.set_unreachable(reason, "m")
    for kind in (
        *(super_clusters.REACHABLE, super_clusters.AUTHORIZED),
        super_clusters.VERSION_SUPPORTED,
    ):
        verdict.set_condition(kind, "True", "Well", "m")
    verdict.set_condition(super_clusters.NETWORKS_OVERLAP, "False", "Apart", "m")
    verdict.set_ready(reachable_network=False)
    listed = verdict.build_conditions(now=NOW, generation=1)
    return {"observedGeneration": 1, "conditions": listed}


def rollout_status(hold: Any, *, waiting: int) -> dict[str, Any]:
    none: frozenset[str] = frozenset()
    decision = Admission(admitted=none, new_slots=none, failed=none, hold=hold)
    condition = rollout.build_condition(decision, [], waiting=waiting, now=NOW, generation=1)
    return {"conditions": [condition]}


def control_plane_status(
    tenant: Mapping[str, Any] | None, refusal: tuple[str, str] | None = None
) -> dict[str, Any]:
    body = {"metadata": {"generation": 1}}
    source = None if tenant is None else {"status": tenant}
    return control_planes.build_status(body, source, refusal=refusal, paused=False, now=NOW)


@dataclass(frozen=True, kw_only=True)
class HealthRow:
    """One state, and the words of both programs."""

    name: str
    resource: Resource
    status: Mapping[str, Any] | None
    kstatus: str
    argo_cd: str
    spec: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def build_object(self) -> dict[str, Any]:
        """Return the object as a client reads it."""
        return {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "metadata": {"name": "a", "generation": 1, **self.metadata},
            "spec": dict(self.spec),
            **({} if self.status is None else {"status": self.status}),
        }


VC, SNAPSHOT = resources.VIRTUAL_CLUSTERS, resources.VIRTUAL_CLUSTER_SNAPSHOTS
TARGET, VERSION = resources.SUPER_CLUSTERS, resources.CLUSTER_VERSIONS
CONTROL_PLANE = resources.VIRTUAL_CLUSTER_CONTROL_PLANES
DELETED = {"deletionTimestamp": NOW, "finalizers": [wellknown.FINALIZER]}
ASLEEP = (wellknown.ASLEEP, "It sleeps.")
REFUSED = ("VirtualClusterRefused", "The name is too long.")


def _row(
    name: str,
    resource: Resource,
    status: Mapping[str, Any] | None,
    kstatus: str,
    argo_cd: str,
    **more: Any,
) -> HealthRow:
    return HealthRow(
        name=name, resource=resource, status=status, kstatus=kstatus, argo_cd=argo_cd, **more
    )


_PROGRESS, _READY, _FAILED = ("InProgress", "Progressing"), ("Current", "Healthy"), "Failed"
ROWS = (
    _row("tenant, new", VC, NEW, *_PROGRESS),
    _row("tenant, provisioning", VC, tenant_status(blocked=("EtcdNotReady", "m")), *_PROGRESS),
    _row("tenant, ready", VC, tenant_status(), *_READY),
    _row("tenant, part lost", VC, tenant_status(broken=wellknown.ETCD_READY), *_PROGRESS),
    _row(
        "tenant, failed",
        VC,
        tenant_status(blocked=("InvalidSpec", "m"), is_stalled=True),
        *(_FAILED, "Degraded"),
    ),
    _row(
        "tenant, changed and not seen",
        VC,
        tenant_status(),
        *_PROGRESS,
        metadata={"generation": 2},
    ),
    _row("tenant, asleep", VC, tenant_status(blocked=ASLEEP), "InProgress", "Suspended"),
    _row("tenant, paused", VC, tenant_status(paused=True), "Current", "Suspended"),
    _row("tenant, not synced", VC, tenant_status(), "Current", "Suspended", spec={"suspend": True}),
    _row("tenant, deleting", VC, tenant_status(), "Terminating", "Progressing", metadata=DELETED),
    _row("target, new", TARGET, NEW, *_PROGRESS),
    _row("target, ready", TARGET, target_status(), *_READY),
    _row("target, no Secret", TARGET, target_status("SecretNotFound"), *_PROGRESS),
    _row("target, wrong spec", TARGET, target_status("InvalidSpec"), _FAILED, "Degraded"),
    _row(
        "target, another cluster",
        TARGET,
        target_status(super_clusters.IDENTITY_CHANGED),
        *(_FAILED, "Degraded"),
    ),
    _row("snapshot, new", SNAPSHOT, NEW, *_PROGRESS),
    _row(
        "snapshot, waiting",
        SNAPSHOT,
        snapshot_status(SaveDecision("Pending", "WaitingForEtcd", "m")),
        *_PROGRESS,
    ),
    _row(
        "snapshot, running",
        SNAPSHOT,
        snapshot_status(SaveDecision("Running", "Saving", "m")),
        *_PROGRESS,
    ),
    _row(
        "snapshot, complete",
        SNAPSHOT,
        snapshot_status(SaveDecision("Complete", "Saved", "m")),
        *_READY,
    ),
    _row(
        "snapshot, failed",
        SNAPSHOT,
        snapshot_status(SaveDecision("Failed", "NoSpace", "m")),
        *(_FAILED, "Degraded"),
    ),
    _row("version, unused", VERSION, None, *_READY),
    _row("version, rolled out", VERSION, rollout_status(None, waiting=0), *_READY),
    _row(
        "version, progressing", VERSION, rollout_status(None, waiting=1), "Current", "Progressing"
    ),
    _row("version, stopped", VERSION, rollout_status("Stopped", waiting=1), "Current", "Degraded"),
    _row("version, paused", VERSION, rollout_status("Paused", waiting=1), "Current", "Suspended"),
    _row("version, deleting", VERSION, None, "Terminating", "Progressing", metadata=DELETED),
    _row("policy", resources.TENANT_POLICIES, None, "Current", ""),
    _row("control plane, new", CONTROL_PLANE, NEW, *_PROGRESS),
    _row("control plane, provisioning", CONTROL_PLANE, control_plane_status(None), *_PROGRESS),
    _row("control plane, ready", CONTROL_PLANE, control_plane_status(tenant_status()), *_READY),
    _row(
        "control plane, refused",
        CONTROL_PLANE,
        control_plane_status(None, REFUSED),
        *(_FAILED, "Degraded"),
    ),
    _row(
        "control plane, tenant failed",
        CONTROL_PLANE,
        control_plane_status(tenant_status(blocked=("InvalidSpec", "m"), is_stalled=True)),
        *(_FAILED, "Degraded"),
    ),
)


def read_config_map() -> str:
    """Return the ConfigMap of the page, as a user copies it."""
    page = (ROOT / "docs" / "gitops.md").read_text()
    blocks = [block.partition("```")[0] for block in page.split("```yaml\n")[1:]]
    (found,) = [block for block in blocks if "kind: ConfigMap" in block]
    assert steps(page) == []  # no block of the page is run by a walk
    return found


@pytest.fixture(scope="session")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Mapping[str, str]]:
    """The verdicts of both programs about each row, by its name."""
    config_map = tmp_path_factory.mktemp("health") / "argocd-cm.yaml"
    config_map.write_text(read_config_map())
    lines = "".join(json.dumps(row.build_object()) + "\n" for row in ROWS)
    answers = judge(config_map, lines)
    assert answers.returncode == 0, answers.stderr
    found = [json.loads(line) for line in answers.stdout.splitlines()]
    return {row.name: one for row, one in zip(ROWS, found, strict=True)}


def judge(config_map: Path, lines: str) -> subprocess.CompletedProcess[str]:
    program = str(binaries.path("health"))
    return subprocess.run(
        [program, str(config_map)], input=lines, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_both_programs_understand_each_state(
    row: HealthRow, verdicts: Mapping[str, Mapping[str, str]]
):
    found = verdicts[row.name]
    print(f"{row.name}: kstatus {found['kstatus']}, Argo CD {found['argocd'] or 'no check'}")
    assert (found["kstatus"], found["argocd"]) == (row.kstatus, row.argo_cd), found


def test_each_of_our_kinds_with_a_status_has_a_check():
    data = yaml.safe_load(read_config_map())["data"]
    kinds = {key.rpartition(".health.")[2] for key in data}
    wanted = {f"{row.resource.group}_{row.resource.kind}" for row in ROWS if row.argo_cd}
    assert kinds == wanted


def test_a_script_with_an_unknown_status_is_refused(tmp_path: Path):
    key = "resource.customizations.health.tenancy.x-k8s.io_VirtualCluster"
    config_map = tmp_path / "argocd-cm.yaml"
    config_map.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "data": {key: 'return {status = "Fine", message = ""}'},
            }
        )
    )
    done = judge(config_map, json.dumps(ROWS[0].build_object()) + "\n")
    assert done.returncode == 1
    assert "Fine" in done.stderr
