"""Refusals of `kubectl vc sleep` and `kubectl vc wake`."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.verbs import sleep
from tenancy import wellknown

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
EARLIER, LATER = "2026-03-01T11:00:00Z", "2026-03-01T13:00:00Z"


def body(paused: Any = None, **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "web", "namespace": "shop", **metadata},
        "spec": {"clusterVersionName": "v1.36", "pausedUntil": paused},
    }


@pytest.mark.parametrize(
    "found", [body(), body(EARLIER), body("tomorrow"), body(annotations={"team": "x"})]
)
def test_other_tenants_may_sleep_and_wake(found):
    sleep.check_changeable(found, NOW)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (body(deletionTimestamp=EARLIER), "is being deleted, so it can neither sleep nor wake."),
        (
            body(annotations={wellknown.DELETE_AFTER: LATER}),
            "with `kubectl vc undelete web`.",
        ),
        (body(LATER), f"is paused until {LATER}, so vc-manager changes nothing."),
    ],
)
def test_a_tenant_whose_control_plane_would_not_change_is_refused(found, told):
    with pytest.raises(CliError) as caught:
        sleep.check_changeable(found, NOW)
    assert str(caught.value).startswith("VirtualCluster shop/web ")
    assert told in str(caught.value)
