"""Jobs of snapshots, as they are read and deleted."""

import pytest

from kubeio import errors
from tests.support.vcmanager.factories import NOW, RecordingClient, fake_means
from vcmanager.reconcilers.snapshots import job_runs

UNSCHEDULED = {"type": "PodScheduled", "status": "False", "message": "no node"}


async def test_a_job_that_does_not_start_has_the_message_of_its_pod():
    client = RecordingClient({"save": {"metadata": {"name": "save"}}})
    client.listed = [{"status": {"conditions": [UNSCHEDULED]}}]
    job, result = await job_runs.fetch_job(fake_means(client), "root", "save")
    assert job is not None
    assert result is not None
    assert (result.is_done, result.message) == (False, "no node")
    assert await job_runs.fetch_job(fake_means(client), "root", "other") == (None, None)


async def test_a_job_that_exists_or_is_gone_is_no_failure():
    client = RecordingClient()
    client.problems[("create", "a")] = errors.AlreadyExists("it exists")
    client.problems[("delete", "a")] = errors.NotFound("it is gone")
    await job_runs.create_job(fake_means(client), {"metadata": {"name": "a"}})
    await job_runs.delete_jobs(fake_means(client), "root", ["a", "b"])
    assert client.calls == [("delete", "b")]


@pytest.mark.parametrize(("stamp", "age"), [("2026-03-01T11:59:00Z", 60.0), ("odd", 0.0)])
def test_age_of_a_job(stamp, age):
    assert job_runs.compute_age({"metadata": {"creationTimestamp": stamp}}, NOW) == age
    assert job_runs.compute_age(None, NOW) == 0.0
