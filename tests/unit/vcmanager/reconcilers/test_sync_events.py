"""Events about the syncer's conditions."""

import pytest

from tenancy import wellknown
from tests.support.vcmanager.factories import NOW, RecordedEventRows, RecordingClient, fake_means
from vcmanager.reconcilers import sync_events
from vcmanager.runtime import keys

FRESH, OLD = "2026-03-01T11:58:00Z", "2026-03-01T10:00:00Z"
KEY = keys.build_sync_events_key("default", "vc-1")


def condition(kind, status, reason, since=FRESH):
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "m",
        "lastTransitionTime": since,
    }


def synced(status, reason, since=FRESH):
    return condition(wellknown.SYNCED, status, reason, since)


def held(status, since=FRESH):
    return condition(wellknown.DELETES_HELD, status, "StoreChanged", since)


@pytest.mark.parametrize(
    ("found", "before", "expected"),
    [
        (synced("False", "TenantUnreachable"), None, ("Warning", "TenantUnreachable")),
        (synced("False", "TenantUnreachable", OLD), None, None),
        (synced("False", "TooLarge", OLD), ("False", "PolicyMissing"), ("Warning", "TooLarge")),
        (synced("False", "TooLarge"), ("False", "TooLarge"), None),
        (synced("False", "Suspended"), ("True", "Engaged"), ("Normal", "Suspended")),
        (synced("True", "Engaged"), ("False", "TooLarge"), ("Normal", "Synced")),
        (synced("True", "Engaged", OLD), None, None),
        (held("True"), ("False", "StoreIntact"), ("Warning", "DeletesHeld")),
        (held("False"), ("True", "StoreChanged"), ("Normal", "DeletesReleased")),
        (held("False"), None, None),
    ],
)
def test_a_change_is_an_event(found, before, expected):
    row = sync_events.find_event(found, before, NOW)
    assert (row and row[:2]) == expected


async def test_each_change_is_posted_once():
    body = {
        "metadata": {"name": "vc-1", "namespace": "default", "uid": "u"},
        "status": {"conditions": [synced("False", "TenantUnreachable"), held("True")]},
    }
    recorder = RecordedEventRows()
    means = fake_means(RecordingClient({"vc-1": body}), recorder=recorder)
    for _ in range(2):
        await sync_events.reconcile_sync_events(means, KEY)
    assert recorder.reasons == ["TenantUnreachable", "DeletesHeld"]


async def test_a_deleted_virtual_cluster_has_no_event():
    recorder = RecordedEventRows()
    await sync_events.reconcile_sync_events(fake_means(RecordingClient(), recorder=recorder), KEY)
    assert recorder.reasons == []
