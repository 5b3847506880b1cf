"""Circuit breaker of one API server: silence opens it, an answer closes it."""

from __future__ import annotations

import pytest

from kubeio import errors
from kubeio.controller.worker import Wait
from syncer.safety.circuit_breaker import (
    FAILURES,
    FORGOTTEN_SECONDS,
    REFUSED,
    REFUSING_SECONDS,
    Breaker,
    Refusals,
    _is_refusal,
    _written,
)
from tests.support.syncer.clocks import Clock


def test_silence_opens_the_breaker_and_one_probe_at_a_time_passes():
    """REL-16."""
    clock = Clock()
    breaker = Breaker(clock)
    for _ in range(FAILURES):
        breaker.check()
        breaker.failed()
    with pytest.raises(Wait) as waited:
        breaker.check()
    assert waited.value.after
    clock.now += 60
    breaker.check()  # the probe
    with pytest.raises(Wait):
        breaker.check()
    breaker.answered()
    breaker.check()


def test_an_answer_in_between_keeps_it_closed():
    breaker = Breaker(Clock())
    for _ in range(FAILURES * 3):
        breaker.failed()
        breaker.answered()
    breaker.check()


# --- a tenant that refuses writes -----------------------------------------------------------------


def test_a_tenant_that_takes_nothing_of_a_kind_is_said_to_refuse_it():
    clock = Clock()
    refusals = Refusals(clock)
    for _ in range(REFUSED):
        refusals.refused("pods/status", "denied by a webhook")
    assert refusals.problem() == ""  # not for long enough
    clock.now += REFUSING_SECONDS
    assert refusals.problem() == "writes of pods/status are refused: denied by a webhook"
    for _ in range(REFUSED):
        refusals.refused("events", "no events")
    clock.now += REFUSING_SECONDS
    assert refusals.problem() == "writes of events, pods/status are refused: no events"
    refusals.accepted("events")
    assert refusals.problem()
    refusals.accepted("pods/status")
    assert refusals.problem() == ""
    for _ in range(REFUSED):
        refusals.refused("pods", "no")
    clock.now += FORGOTTEN_SECONDS  # nobody tries it any more
    assert refusals.problem() == ""


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
    assert _written(method, path) == what


def test_what_counts_as_refused():
    gone = errors.Forbidden("m", details={"causes": [{"reason": "NamespaceTerminating"}]})
    refused = (errors.Forbidden("m"), errors.Invalid("m"), errors.ServerProblem("m"))
    assert all(_is_refusal(problem) for problem in refused)
    others = (gone, errors.NotFound("m"), errors.Conflict("m"), errors.TooManyRequests("m"))
    assert not any(_is_refusal(problem) for problem in others)


def test_a_breaker_says_who_is_silent():
    found = Breaker(lambda: 0.0, whose="the super cluster c2's")
    for _ in range(FAILURES):
        found.failed()
    with pytest.raises(Wait, match="the super cluster c2's API does not answer"):
        found.check()
