"""Traces of a session: an audit line without secrets, and metrics with few names."""

import random
import uuid
from datetime import UTC, datetime
from itertools import product

from prometheus_client import REGISTRY, generate_latest
from prometheus_client.metrics import MetricWrapperBase

from tenancy import names
from tests.support.vnagent import running_agent
from tests.support.vnagent.metric_series import agent_series
from vnagent.authz import metrics
from vnagent.authz.client_identity import ClientIdentity
from vnagent.authz.metrics import RejectedConnection
from vnagent.protocol.errors import RefusalReason
from vnagent.protocol.routes import Route, RouteVerb
from vnagent.server import audit
from vnagent.stream.stream_states import StreamEnd

CALLER = ClientIdentity(
    "0f0e0d0c-0b0a-4900-8800-070605040302", "default-b41df0-one", datetime.now(UTC)
)


RESULTS = [*StreamEnd, *RefusalReason, "kubelet_refused"]


def record(namespace: str, pod: str) -> None:
    """Have every verb, and what has none, end in every way, with names of the caller's."""
    routes = [
        Route(verb=verb, method="GET", tenant_namespace=namespace, pod=pod) for verb in RouteVerb
    ]
    for route, result, status in product([*routes, None], RESULTS, (101, 403, 502)):
        audit.write_audit_record(
            audit.RequestAudit(CALLER, route=route, status=status, result=str(result))
        )


def test_series_do_not_grow_with_what_callers_invent():
    """SEC-14: labels are verbs and results, both closed sets, and a few tenants."""
    record("web", "shop")
    closed = agent_series()
    for number in range(20):
        record(f"n{number}", f"p{number}")
    assert agent_series() == closed


LABELS = {
    *("verb", "result", "direction", "tenant", "outcome", "mode", "reason", "state"),
}


"""Every label that a metric of the agent may have. Each has a closed set of values."""


def test_no_metric_has_a_label_that_a_caller_writes():
    """SEC-14: a label that is not listed here is of no closed set that anyone has looked at."""
    families = [one for one in vars(metrics).values() if isinstance(one, MetricWrapperBase)]
    assert len(families) >= 9
    for family in families:
        assert set(family._labelnames) <= LABELS, family._name


async def test_hostile_requests_make_no_series(tmp_path):
    """SEC-14: whatever is asked for is nowhere in what is shown."""
    chance = random.Random(140)  # noqa: S311 - no secret
    async with running_agent.staged(tmp_path, running_agent.FakeKubelet()) as set_up:
        for number in range(60):
            word = f"canary{number}"
            path = chance.choice(
                ("containerLogs/{0}/{0}/{0}", "exec/{0}/{0}/{0}?command={0}", "{0}", "pods?{0}={0}")
            ).format(word)
            lines = f"{word}: {word}\r\nUser-Agent: {word}\r\nX-Remote-User: {word}\r\n"
            method = chance.choice(("GET", "POST", word.upper()))
            await set_up.send(f"{method} /{path} HTTP/1.1\r\nHost: {word}\r\n{lines}\r\n".encode())
    assert "canary" not in generate_latest().decode().lower()


def value(name: str, **labels: str) -> float:
    """Return a series' value."""
    return REGISTRY.get_sample_value(name, labels) or 0.0


def of(vc_uid: str, status: int, **known: int) -> audit.RequestAudit:
    """Return an exec of a tenant."""
    caller = ClientIdentity(vc_uid, "default-b41df0-one", datetime.now(UTC))
    route = Route(verb=RouteVerb.EXEC, method="POST", pod="shop", container="main")
    return audit.RequestAudit(caller, route=route, status=status, result="complete", **known)


def test_a_number_of_tenants_have_series_of_their_own_and_the_rest_one(monkeypatch):
    """SEC-13, SEC-14: 1,000 tenants come. None is called by a name, nor by its UID."""
    monkeypatch.setattr(metrics._TENANT_LABELS, "_labels", {})
    for family in vars(metrics).values():  # what other tests' tenants have left
        if "tenant" in getattr(family, "_labelnames", ()):
            family.clear()
    chance = random.Random(14)  # noqa: S311 - no secret
    uids = [str(uuid.UUID(int=chance.getrandbits(128), version=4)) for _ in range(1000)]
    before = value("vc_agent_tenant_stream_bytes_total", tenant="other", direction="down")
    for vc_uid in uids:
        for status in (101, 403, 502):
            audit.write_audit_record(of(vc_uid, status, bytes_down=1))
        with metrics.count_open_stream(vc_uid, RouteVerb.EXEC):
            pass
        for why in RejectedConnection:
            metrics.count_refused_connection(why, vc_uid)
    for why in RejectedConnection:
        metrics.count_refused_connection(why)
    record("web", "shop")
    assert agent_series() <= 200
    shown = generate_latest().decode()
    assert not [vc_uid for vc_uid in uids if vc_uid in shown]
    assert "default-b41df0-one" not in shown
    assert "shop" not in shown
    first, last = metrics.get_tenant_label(uids[0]), metrics.get_tenant_label(uids[-1])
    assert names.build_root_namespace("default", "one", uids[0]) == f"default-{first}-one"
    assert last == metrics.OTHER_TENANTS_LABEL
    for outcome in metrics.OUTCOMES:
        labels = {"tenant": first, "outcome": outcome}
        assert value("vc_agent_tenant_sessions_total", **labels) == 1
    after = value("vc_agent_tenant_stream_bytes_total", tenant="other", direction="down")
    assert after - before == 3 * (len(uids) - metrics.MAX_TENANT_LABELS)


def test_streams_are_counted_while_they_are_open(monkeypatch):
    """By tenant as well."""
    monkeypatch.setattr(metrics._TENANT_LABELS, "_labels", {})
    tenant = metrics.get_tenant_label(CALLER.vc_uid)
    with (
        metrics.count_open_stream(CALLER.vc_uid, RouteVerb.LOGS),
        metrics.count_open_stream(CALLER.vc_uid, RouteVerb.EXEC),
    ):
        assert value("vc_agent_tenant_open_streams", tenant=tenant) == 2
    assert value("vc_agent_tenant_open_streams", tenant=tenant) == 0
