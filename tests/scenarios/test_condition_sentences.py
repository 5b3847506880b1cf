"""Bad input of administrators and of volumes: one sentence of `kubectl vc` names the fault.

The conditions are those that vc-manager's own functions write for the fault.
"""

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kubectl_vc.inspection import describe
from kubectl_vc.installation import doctor
from kubectl_vc.installation.check_table import run_checks
from kubectl_vc.installation.installation_facts import TenantControlPlane
from kubectl_vc.installation.tenant_checks import TENANT_CHECKS
from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.snapshot import restore, snapshots
from kubectl_vc.verbs import get
from tenancy import wellknown
from tenancy.snapshots import view
from tests.support.kubectl_vc.installation_faults import SOUND
from tests.support.vcmanager.factories import FACTS, NOW, pod, workload
from tests.support.vcmanager.snapshots import (
    SNAPSHOT_UID,
    make_snapshot,
    snapshot_body,
    write_database,
)
from tests.unit.vcmanager.phases.rotations.test_authority_rotation import Store, advance, cluster
from tests.unit.vcmanager.plan.test_pki_secrets import AGENTS
from tests.unit.vcmanager.snapshots.test_restore_steps import FACTS as RESTORE_FACTS
from tests.unit.vcmanager.snapshots.test_s3_client import client, refusal
from tests.unit.vcmanager.snapshots.test_snapshot_steps import FACTS as SAVE_FACTS
from vcmanager.pki import rotated_secrets
from vcmanager.plan import component_status, pki_secrets
from vcmanager.plan.component_status import ComponentCondition
from vcmanager.runtime.blocked import PhaseBlocked
from vcmanager.runtime.status import ReconcileStatus
from vcmanager.snapshots import file_store, jobs, restore_steps, snapshot_steps
from vcmanager.snapshots.file_store import WorkerError
from vcmanager.snapshots.jobs import JobResult

Body = dict[str, Any]


# The Jobs of snapshots.


def end_job(container: str, text: str) -> JobResult:
    """Return what vc-manager reads of a Job whose container failed with a text."""
    ended = {"state": {"terminated": {"exitCode": 1, "message": text}}, "name": container}
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
    job = {"status": {"conditions": [failed]}}
    return jobs.read_result(job, [{"status": {"containerStatuses": [ended]}}])


def end_worker(problem: WorkerError) -> JobResult:
    """Return the same for vc-manager's own container."""
    return end_job("verify", json.dumps({"reason": problem.reason, "message": str(problem)}))


def change_file(folder: Path) -> JobResult:
    """Check a file that is not the recorded one."""
    path = folder / f"{SNAPSHOT_UID}.db"
    write_database(path, [(2, "/registry/pods/default/a", False)])
    with pytest.raises(WorkerError) as caught:
        file_store.check_file(path, "ab" * 32)
    return end_worker(caught.value)


def fill_volume(_: Path) -> JobResult:
    """Save to a volume without room."""
    return end_job("save", "Error: write /snapshots/x.db.part: no space left on device")


def refuse_credentials(_: Path) -> JobResult:
    """Ask a server that does not accept the credentials."""
    s3, _opener = client(refusal(403, "InvalidAccessKeyId"))
    with pytest.raises(WorkerError) as caught:
        s3.delete("x.db")
    return end_worker(caught.value)


def fail_save(result: JobResult) -> Body:
    """Return the VirtualClusterSnapshot whose Job ended so."""
    body = snapshot_body("Failed")
    decision = snapshot_steps.decide_save(replace(SAVE_FACTS, job=result), make_snapshot("Running"))
    body["status"]["conditions"] = snapshot_steps.build_conditions(
        decision, now="2026-03-01T12:00:00Z", generation=1
    )
    return body


def report_snapshot(body: Body) -> list[str]:
    """Return the texts of `snapshot create`, which are those of `import`, and of `snapshot get`."""
    with pytest.raises(CliError) as caught:
        snapshots.check_complete(body)
    return [str(caught.value), snapshots.describe_manifest(body)]


REFUSED = (
    "the bucket tenants of https://s3.example.com:9000 refuses the credentials"
    " (403 InvalidAccessKeyId)."
)
CHANGED = f"{SNAPSHOT_UID}.db has the SHA-256 DIGEST, and the snapshot was recorded with DIGEST."


# Restores.


def fail_restore(**changed: Any) -> Body:
    """Return a VirtualCluster whose restore vc-manager decides with changed facts."""
    decision = restore_steps.decide_restore(replace(RESTORE_FACTS, **changed))
    body = build_cluster()
    body["status"]["restore"] = {
        "request": "first@2026-03-01T12:00:00Z",
        "phase": decision.phase,
        "reason": decision.reason,
        "message": decision.message,
    }
    return body


def report_restore(body: Body) -> list[str]:
    """Return the texts of `restore`, `describe` and `doctor`."""
    with pytest.raises(CliError) as caught:
        restore.check_result("VirtualCluster default/vc-1", body["status"]["restore"])
    rows = {each.check: each for each in check(body)}
    assert {each.check for each in rows.values() if each.state != "ok"} == {"restore"}
    return [
        str(caught.value),
        describe.build_description(body, NOW, []),
        rows["restore"].message,
    ]


# VirtualClusters.


def build_cluster(problem: PhaseBlocked | ComponentCondition | None = None) -> Body:
    """Return a VirtualCluster as vc-manager reports it. None: it is ready."""
    status = ReconcileStatus(generation=1, now="2026-03-01T12:00:00Z")
    if isinstance(problem, PhaseBlocked):
        assert problem.condition is not None
        status.set_condition(problem.condition, "False", problem.reason, problem.message)
    elif problem is not None:
        kind = wellknown.API_SERVER_READY
        status.set_condition(kind, "False", problem.reason, problem.message, is_failure=True)
    for kind in (wellknown.CERTIFICATES_READY, *component_status.COMPONENT_CONDITIONS.values()):
        status.set_condition(kind, "True", "Ready", "It is ready.")
    blocked = (problem.reason, problem.message) if isinstance(problem, PhaseBlocked) else None
    status.summarize(
        blocked=blocked,
        is_stalled=isinstance(problem, PhaseBlocked) and problem.needs_admin,
        is_deleting=False,
    )
    written = status.build_status({"phase": "Running"})
    synced = {"type": wellknown.SYNCED, "status": "True", "reason": "Engaged", "message": "said"}
    return {
        "metadata": {"name": "vc-1", "namespace": "default", "uid": FACTS.uid, "generation": 1},
        "spec": {"clusterVersionName": "v1.36"},
        "status": {**written, "conditions": [*written["conditions"], synced]},
    }


def check(body: Body) -> list[Any]:
    """Return the results of `doctor` for a tenant without other faults."""
    rows = [{"name": "etcd-ca", "expires": "2099-01-01T00:00:00+00:00"}]
    certificates = [{"data": {wellknown.CERTIFICATES_KEY: json.dumps(rows)}}]
    plane = TenantControlPlane(virtual_cluster=body, certificates=certificates, claims=[], pods=[])
    return run_checks(replace(SOUND, tenant=plane), TENANT_CHECKS)


def report_cluster(body: Body) -> list[str]:
    """Return the texts of `get`, `describe` and `doctor`."""
    with pytest.raises(doctor.BrokenLinkError) as caught:
        doctor.raise_for_broken_link(check(body))
    return [
        get.build_conditions_table(body, NOW),
        describe.build_description(body, NOW, []),
        str(caught.value),
    ]


def make_roots() -> dict[str, Body]:
    """Return the Secrets with the authorities of a new tenant."""
    made = asyncio.run(
        pki_secrets.build_missing_authorities({}, FACTS, is_initialised=False, now=NOW)
    )
    for each in made:
        each["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    return {each["metadata"]["name"]: each for each in made}


def corrupt_secret() -> PhaseBlocked:
    """Read the authorities of a tenant with a Secret that is no certificate."""
    secrets = make_roots()
    secrets["root-ca"]["data"] = {"tls.crt": "AAAA", "tls.key": "AAAA"}
    with pytest.raises(PhaseBlocked) as caught:
        pki_secrets.read_authorities(secrets, FACTS, AGENTS)
    return caught.value


def halve_rotation() -> PhaseBlocked:
    """Go on with a rotation whose next authority is missing."""
    store = Store(make_roots())
    asyncio.run(advance(store, cluster("serving")))
    state, _ = rotated_secrets.read_rotation("serving", store.secrets["root-ca"])
    assert state.stage == "trust-both"
    del store.secrets["root-ca"]["data"]["other.crt"]
    with pytest.raises(PhaseBlocked) as caught:
        asyncio.run(advance(store, cluster("serving")))
    return caught.value


def crash_api_server() -> ComponentCondition:
    """Judge an API server that ends at its start because of a flag of the ClusterVersion."""
    crashed = {
        "name": "kube-apiserver",
        "restartCount": 3,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
        "lastState": {
            "terminated": {
                "exitCode": 1,
                "reason": "Error",
                "message": "usage\nError: unknown flag: --no-such-flag",
            }
        },
    }
    found = [pod("apiserver-0", "apiserver", phase="Running", containerStatuses=[crashed])]
    return component_status.evaluate_component("apiserver", workload("apiserver"), found)


OLDER = view.parse_snapshot(snapshot_body(kubernetesVersion="v1.34.2"))
ROWS: dict[str, tuple[Callable[[Path], list[str]], str]] = {
    "an imported file of another content": (
        lambda folder: report_snapshot(fail_save(change_file(folder))),
        f"The snapshot failed: {CHANGED}",
    ),
    "a full volume of snapshots": (
        lambda folder: report_snapshot(fail_save(fill_volume(folder))),
        "The snapshot failed: the volume of snapshots is full.",
    ),
    "a bucket that refuses": (
        lambda folder: report_snapshot(fail_save(refuse_credentials(folder))),
        f"The snapshot failed: {REFUSED}",
    ),
    "a restore of a changed file": (
        lambda folder: report_restore(fail_restore(check=change_file(folder))),
        CHANGED,
    ),
    "a restore from a bucket that refuses": (
        lambda folder: report_restore(fail_restore(check=refuse_credentials(folder))),
        REFUSED,
    ),
    "a restore of another minor": (
        lambda _: report_restore(fail_restore(snapshot=OLDER)),
        "VirtualClusterSnapshot first is of Kubernetes 1.34, and the tenant runs 1.36.",
    ),
    "a corrupt Secret": (
        lambda _: report_cluster(build_cluster(corrupt_secret())),
        f"The Secret root-ca in namespace {FACTS.root} cannot be used (unreadable).",
    ),
    "a half-rotated authority": (
        lambda _: report_cluster(build_cluster(halve_rotation())),
        (
            f"The Secret root-ca in namespace {FACTS.root} has no usable rotation"
            " (other.crt: missing)."
        ),
    ),
    "a flag that crashes the API server": (
        lambda _: report_cluster(build_cluster(crash_api_server())),
        (
            "It last ended with exit code 1 (Error) after 3 restarts: Error: unknown flag:"
            " --no-such-flag"
        ),
    ),
}
"""Texts of the verbs about a fault, and the sentence that each of them has."""


@pytest.mark.parametrize("name", ROWS)
def test_one_sentence_names_the_fault(name: str, tmp_path: Path):
    make, sentence = ROWS[name]
    for text in make(tmp_path):
        lines = [re.sub("[0-9a-f]{64}", "DIGEST", line) for line in text.splitlines()]
        assert sum(sentence in line for line in lines) >= 1, text


def test_doctor_finds_no_fault_of_a_ready_tenant():
    assert {each.state for each in check(build_cluster())} == {"ok"}
