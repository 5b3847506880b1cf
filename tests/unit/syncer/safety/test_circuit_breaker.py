"""Circuit breaker of one API server: silence opens it, an answer closes it."""

from __future__ import annotations

import pytest

from kubeio import errors
from kubeio.controller.worker import NotReadyYet
from syncer.safety.circuit_breaker import (
    FAILURES_TO_OPEN,
    REFUSAL_EXPIRY_SECONDS,
    REFUSALS_TO_REPORT,
    REFUSING_REPORT_SECONDS,
    CircuitBreaker,
    RefusedWrites,
    _describe_write,
    _is_refusal,
)
from tests.support.syncer.clocks import Clock


def test_silence_opens_the_breaker_and_one_probe_at_a_time_passes():
    """REL-16."""
    clock = Clock()
    breaker = CircuitBreaker(clock)
    for _ in range(FAILURES_TO_OPEN):
        breaker.check_closed()
        breaker.count_failure()
    with pytest.raises(NotReadyYet) as waited:
        breaker.check_closed()
    assert waited.value.after
    clock.now += 60
    breaker.check_closed()  # the probe
    with pytest.raises(NotReadyYet):
        breaker.check_closed()
    breaker.record_answer()
    breaker.check_closed()


def test_an_answer_in_between_keeps_it_closed():
    breaker = CircuitBreaker(Clock())
    for _ in range(FAILURES_TO_OPEN * 3):
        breaker.count_failure()
        breaker.record_answer()
    breaker.check_closed()


# --- a tenant that refuses writes -----------------------------------------------------------------


def test_a_tenant_that_takes_nothing_of_a_kind_is_reported_to_refuse_it():
    clock = Clock()
    refusals = RefusedWrites(clock)
    for _ in range(REFUSALS_TO_REPORT):
        refusals.count_refusal("pods/status", "denied by a webhook")
    assert refusals.describe_refused() == ""  # not for long enough
    clock.now += REFUSING_REPORT_SECONDS
    assert refusals.describe_refused() == "writes of pods/status are rejected: denied by a webhook"
    for _ in range(REFUSALS_TO_REPORT):
        refusals.count_refusal("events", "no events")
    clock.now += REFUSING_REPORT_SECONDS
    assert refusals.describe_refused() == "writes of events, pods/status are rejected: no events"
    refusals.record_accepted("events")
    assert refusals.describe_refused()
    refusals.record_accepted("pods/status")
    assert refusals.describe_refused() == ""
    for _ in range(REFUSALS_TO_REPORT):
        refusals.count_refusal("pods", "no")
    clock.now += REFUSAL_EXPIRY_SECONDS  # no one tries it any longer
    assert refusals.describe_refused() == ""


@pytest.mark.parametrize(
    ("method", "path", "what"),
    [
        ("GET", "/api/v1/namespaces/web/pods/p", ""),
        ("PATCH", "/api/v1/namespaces/web/pods/p/status", "pods/status"),
        ("POST", "/api/v1/namespaces/web/pods/p/binding", "pods/binding"),
        ("POST", "/api/v1/namespaces/web/events", "events"),
        ("PATCH", "/api/v1/nodes/n", "nodes"),
        ("PATCH", "/api/v1/namespaces/web", "namespaces"),
        ("POST", "/apis/networking.k8s.io/v1/ipaddresses", "ipaddresses"),
    ],
)
def test_what_a_request_writes(method, path, what):
    assert _describe_write(method, path) == what


def test_what_counts_as_refused():
    gone = errors.Forbidden("m", details={"causes": [{"reason": "NamespaceTerminating"}]})
    refused = (errors.Forbidden("m"), errors.Invalid("m"), errors.ServerError("m"))
    assert all(_is_refusal(problem) for problem in refused)
    others = (gone, errors.NotFound("m"), errors.Conflict("m"), errors.TooManyRequests("m"))
    assert not any(_is_refusal(problem) for problem in others)


def test_a_breaker_reports_who_is_silent():
    found = CircuitBreaker(lambda: 0.0, owner="the super cluster c2's")
    for _ in range(FAILURES_TO_OPEN):
        found.count_failure()
    with pytest.raises(NotReadyYet, match="the super cluster c2's API does not answer"):
        found.check_closed()
