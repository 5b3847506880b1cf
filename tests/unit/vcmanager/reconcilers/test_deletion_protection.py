"""The label of a namespace that holds protected VirtualClusters (T2-12, SEC-85)."""

import pytest

from kubeio import errors
from tenancy import wellknown
from tests.support.vcmanager.factories import RecordedEventRows, RecordingClient, fake_means
from vcmanager.reconcilers.deletion_protection import reconcile_namespace_protection

LABELLED = {wellknown.DELETION_PROTECTION: "enabled"}
BODY = {"metadata": {"name": "vc-1", "namespace": "team"}}


def client(labels=None, others=()):
    space = {"metadata": {"name": "team", "uid": "u", "labels": labels or {}}}
    made = RecordingClient({"team": space})
    made.listed = [{"metadata": {"name": "other", "labels": each}} for each in others]
    return made


@pytest.mark.parametrize(
    ("labels", "protects", "others", "written"),
    [
        ({}, True, (), "enabled"),
        (LABELLED, True, (), ""),
        (LABELLED, False, (), None),
        (LABELLED, False, ({}, {wellknown.DELETION_PROTECTION: "disabled"}), None),
        (LABELLED, False, (LABELLED,), ""),
        ({}, False, (LABELLED,), ""),
    ],
)
async def test_the_label_is_there_while_one_is_protected(labels, protects, others, written):
    super_client = client(labels, others)
    await reconcile_namespace_protection(fake_means(super_client), BODY, protects=protects)
    if written == "":
        assert super_client.calls == []
        return
    assert super_client.calls == [("patch", "team")]
    label = super_client.bodies[0]["metadata"]["labels"]
    assert label == {wellknown.DELETION_PROTECTION: written}


async def test_a_namespace_that_is_gone_needs_no_label():
    super_client = RecordingClient()
    await reconcile_namespace_protection(fake_means(super_client), BODY, protects=True)
    assert super_client.calls == []


async def test_a_refused_label_is_reported_and_stops_no_tenant():
    super_client, events = client(), RecordedEventRows()
    super_client.problems["patch", "team"] = errors.Forbidden("a policy says no")
    means = fake_means(super_client, recorder=events)
    await reconcile_namespace_protection(means, BODY, protects=True)
    assert events.reasons == ["NamespaceNotLabelled"]
