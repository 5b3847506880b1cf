"""Jobs of snapshots in the super cluster: created, read and deleted.

Must not decide when a Job is needed. Hazard: a Job is read by its name only. A name is therefore
never used for another purpose.
"""

import contextlib
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from kubeio import Object, errors
from kubeio.api.client import PropagationPolicy
from tenancy import wellknown
from tenancy.ownership import Tenant
from tenancy.resources import JOBS, PODS
from vcmanager.runtime.context import ReconcileContext
from vcmanager.snapshots import jobs
from vcmanager.snapshots.jobs import JobContext, JobResult

_JOB_LABEL = "batch.kubernetes.io/job-name"


def build_context(means: ReconcileContext, tenant: Tenant, etcd: Object) -> JobContext:
    """Return what the Jobs of a tenant need."""
    settings = means.settings
    return JobContext(
        tenant=tenant,
        etcd=etcd,
        image=settings.own_image,
        image_pull_policy=settings.own_image_pull_policy,
    )


async def fetch_job(
    means: ReconcileContext, root: str, name: str
) -> tuple[Object | None, JobResult | None]:
    """Return a Job and its state. Both are None if it does not exist."""
    try:
        job = await means.super_client.get(JOBS, name, namespace=root)
    except errors.NotFound:
        return None, None
    page = await means.super_client.list(
        PODS, namespace=root, label_selector=f"{_JOB_LABEL}={name}"
    )
    pods = page.get("items") or []
    result = jobs.read_result(job, pods)
    if not result.is_done:
        result = replace(result, message=jobs.describe_pending(pods))
    return job, result


async def create_job(means: ReconcileContext, job: Object) -> None:
    """Create a Job, unless it exists."""
    with contextlib.suppress(errors.AlreadyExists):
        await means.super_client.create(JOBS, job, field_manager=wellknown.MANAGER)


def compute_age(job: Object | None, now: datetime) -> float:
    """Return the age of a Job in seconds, and 0 for no Job."""
    text = (job or {}).get("metadata", {}).get("creationTimestamp") or ""
    try:
        return (now - datetime.fromisoformat(text)).total_seconds()
    except ValueError:
        return 0.0


async def delete_jobs(
    means: ReconcileContext,
    root: str,
    names: Iterable[str],
    *,
    propagation: PropagationPolicy = "Background",
) -> None:
    """Delete Jobs with their pods."""
    for name in names:
        with contextlib.suppress(errors.NotFound):
            await means.super_client.delete(JOBS, name, namespace=root, propagation=propagation)
