"""Faults around a ClusterProfile. The usual way is in the integration test."""

import dataclasses

import pytest

from kubeio import errors
from kubeio.controller.worker import Done, RequeueAfter
from tests.support.vcmanager.factories import (
    TENANT,
    UID,
    RecordedEventRows,
    RecordingClient,
    fake_means,
)
from vcmanager.reconcilers.integrations.cluster_profile import reconcile_cluster_profile
from vcmanager.runtime import keys

KEY = keys.build_profile_key("default", "vc-1")


class TwoObjects(RecordingClient):
    """Knows the VirtualCluster, and a ClusterProfile if there is one."""

    profile: dict | None = None

    async def get(self, resource, name, **_):
        if resource.plural == "clusterprofiles":
            if self.profile is None:
                raise errors.NotFound("there is none")
            return self.profile
        return await super().get(resource, name)


def made(*, manager="fleet", profile=None, **metadata):
    body = {
        "metadata": {"name": "vc-1", "namespace": "default", "uid": UID, **metadata},
        "spec": {"clusterVersionName": "v1.36"},
    }
    client = TwoObjects({"vc-1": body})
    client.profile = profile
    recorder = RecordedEventRows()
    means = fake_means(client, recorder=recorder)
    settings = dataclasses.replace(means.settings, cluster_manager=manager)
    return client, recorder, dataclasses.replace(means, settings=settings)


async def test_without_a_cluster_manager_nothing_is_read_or_written():
    client, _, means = made(manager="")
    assert isinstance(await reconcile_cluster_profile(means, KEY), Done)
    assert client.calls == []


async def test_a_missing_kind_is_reported_and_tried_again():
    client, recorder, means = made()
    client.problems["create", "vc-1"] = errors.NotFound("the server has no such resource")
    assert isinstance(await reconcile_cluster_profile(means, KEY), RequeueAfter)
    assert recorder.reasons == ["ClusterProfileUnknown"]


async def test_a_foreign_profile_is_reported_and_not_written():
    client, recorder, means = made(profile={"metadata": {"name": "vc-1"}, "spec": {}})
    assert isinstance(await reconcile_cluster_profile(means, KEY), RequeueAfter)
    assert (recorder.reasons, client.calls) == (["ClusterProfileTaken"], [])


async def test_a_tenant_that_ends_gets_no_profile():
    client, _, means = made(deletionTimestamp="2026-03-01T12:00:00Z")
    assert isinstance(await reconcile_cluster_profile(means, KEY), Done)
    assert client.calls == []


@pytest.mark.parametrize("problem", [errors.AlreadyExists("it has just been created")])
async def test_a_profile_that_has_just_appeared_is_read_again(problem):
    client, _, means = made()
    client.problems["create", TENANT.name] = problem
    assert await reconcile_cluster_profile(means, KEY) == RequeueAfter(1.0)
