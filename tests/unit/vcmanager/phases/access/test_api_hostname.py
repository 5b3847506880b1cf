"""The condition HostnameAccepted, and the name that vc-manager may use."""

import pytest

from tenancy import wellknown
from tests.support.vcmanager.factories import NOW
from tests.unit.vcmanager.runtime.test_host_watch import BASE, Watched, body
from vcmanager.phases.access import api_hostname
from vcmanager.runtime.status import ReconcileStatus


def decide(watched, found):
    status = ReconcileStatus(generation=1, now=NOW.isoformat())
    watch = watched.watch if watched is not None else None
    decision = api_hostname.decide_hostname(watch, found, status)
    return decision, status.get_condition(wellknown.HOSTNAME_ACCEPTED)


def test_without_a_proxy_there_is_no_condition():
    decision, condition = decide(None, body("a", "shop.example.com"))
    assert not decision.accepted
    assert not decision.is_refused
    assert condition is None


def test_a_tenant_without_any_name_has_no_condition():
    decision, condition = decide(Watched(""), body("a"))
    assert not decision.is_refused
    assert condition is None


def test_an_accepted_name_is_reported():
    decision, condition = decide(Watched(), body("a"))
    assert decision.accepted == f"a.n.{BASE}"
    assert (condition["status"], condition["reason"]) == ("True", "Accepted")
    assert f"a.n.{BASE}" in condition["message"]


@pytest.mark.parametrize(
    ("hostname", "reason"),
    [
        ("shop.example.com", "HostnameTaken"),
        (f"b.n.{BASE}", "HostnameReserved"),
        ("10.0.0.1", "InvalidHostname"),
    ],
)
def test_a_refused_name_is_reported_with_a_remedy(hostname, reason):
    made = Watched()
    made.put("secret-neighbour", "shop.example.com", created=0)
    decision, condition = decide(made, body("a", hostname, created=1))
    assert not decision.accepted
    assert decision.is_refused
    assert (condition["status"], condition["reason"]) == ("False", reason)
    assert "Set spec.endpoint.hostname to another DNS name" in condition["message"]
    assert "secret-neighbour" not in condition["message"]
