"""Places for streams: given, given back, refused."""

import contextlib

import pytest

from vnagent.limits.concurrency import FEW_STREAMS, Streams
from vnagent.protocol.errors import Reason, RefusedError


def reason(streams: Streams, vc_uid: str) -> Reason:
    """Return why there is no place."""
    with pytest.raises(RefusedError) as refused, streams.one(vc_uid):
        pass
    return refused.value.reason


def test_a_tenant_has_its_own_limit():
    """SEC-15: one that is full leaves room for the others."""
    streams = Streams(per_tenant=2, total=10)
    with streams.one("a"), streams.one("a"):
        assert reason(streams, "a") is Reason.TENANT_FULL
        with streams.one("b"):
            assert streams.count == 3
    assert streams.count == 0


def test_the_node_has_one_too():
    """Whoever comes when it is reached waits."""
    streams = Streams(per_tenant=2, total=2)
    with streams.one("a"), streams.one("b"):
        assert reason(streams, "c") is Reason.AGENT_FULL
    with streams.one("c"):
        pass


def test_tenants_that_are_full_leave_some_for_those_that_have_few():
    """SEC-15: four that have all they may have would shut every other one out of the node."""
    streams = Streams(per_tenant=32, total=128)
    with contextlib.ExitStack() as places:
        for number in range(96):
            places.enter_context(streams.one(f"greedy-{number % 4}"))
        assert reason(streams, "greedy-0") is Reason.TENANT_FULL
        for _ in range(FEW_STREAMS):
            places.enter_context(streams.one("modest"))
        assert reason(streams, "modest") is Reason.TENANT_FULL
        for _ in range(128 - 96 - FEW_STREAMS):
            places.enter_context(streams.one("another"))
        assert reason(streams, "last") is Reason.AGENT_FULL
    assert streams.count == 0


def test_of_few_places_some_are_kept_as_well():
    """The fewest that the chart takes; of runs, which are fewer still, none are."""
    streams = Streams(per_tenant=16, total=16)
    with contextlib.ExitStack() as places:
        for _ in range(12):
            places.enter_context(streams.one("greedy"))
        assert reason(streams, "greedy") is Reason.TENANT_FULL
        for _ in range(4):
            places.enter_context(streams.one("modest"))
        assert reason(streams, "last") is Reason.AGENT_FULL
    runs = Streams(per_tenant=2, total=4)
    with runs.one("a"), runs.one("a"), runs.one("b"), runs.one("b"):
        assert runs.count == 4


def test_places_come_back_whatever_happens():
    """A failed stream is no longer a stream."""
    streams = Streams(per_tenant=1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), streams.one("a"):
            raise ZeroDivisionError
    assert streams.count == 0


def test_nothing_new_while_draining():
    """Open streams go on."""
    streams = Streams()
    with streams.one("a"):
        streams.drain()
        assert reason(streams, "b") is Reason.DRAINING
        assert streams.count == 1
