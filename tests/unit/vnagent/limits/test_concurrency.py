"""Places for streams: given, given back, refused."""

import contextlib

import pytest

from vnagent.limits.concurrency import RESERVED_STREAMS_PER_TENANT, StreamLimiter
from vnagent.protocol.errors import RefusalReason, RequestRefusedError


def reason(streams: StreamLimiter, vc_uid: str) -> RefusalReason:
    """Return why there is no place."""
    with pytest.raises(RequestRefusedError) as refused, streams.hold_stream(vc_uid):
        pass
    return refused.value.reason


def test_a_tenant_has_its_own_limit():
    """SEC-15: one that is full leaves room for the others."""
    streams = StreamLimiter(per_tenant=2, total=10)
    with streams.hold_stream("a"), streams.hold_stream("a"):
        assert reason(streams, "a") is RefusalReason.TENANT_FULL
        with streams.hold_stream("b"):
            assert streams.count == 3
    assert streams.count == 0


def test_the_node_has_one_too():
    """The one that comes when it is reached waits."""
    streams = StreamLimiter(per_tenant=2, total=2)
    with streams.hold_stream("a"), streams.hold_stream("b"):
        assert reason(streams, "c") is RefusalReason.AGENT_FULL
    with streams.hold_stream("c"):
        pass


def test_tenants_that_are_full_leave_some_for_those_that_have_few():
    """SEC-15: four that have all they may have would shut every other one out of the node."""
    streams = StreamLimiter(per_tenant=32, total=128)
    with contextlib.ExitStack() as places:
        for number in range(96):
            places.enter_context(streams.hold_stream(f"greedy-{number % 4}"))
        assert reason(streams, "greedy-0") is RefusalReason.TENANT_FULL
        for _ in range(RESERVED_STREAMS_PER_TENANT):
            places.enter_context(streams.hold_stream("modest"))
        assert reason(streams, "modest") is RefusalReason.TENANT_FULL
        for _ in range(128 - 96 - RESERVED_STREAMS_PER_TENANT):
            places.enter_context(streams.hold_stream("another"))
        assert reason(streams, "last") is RefusalReason.AGENT_FULL
    assert streams.count == 0


def test_of_few_places_some_are_kept_as_well():
    """The chart takes no fewer streams. Of runs, which are fewer still, no place is kept."""
    streams = StreamLimiter(per_tenant=16, total=16)
    with contextlib.ExitStack() as places:
        for _ in range(12):
            places.enter_context(streams.hold_stream("greedy"))
        assert reason(streams, "greedy") is RefusalReason.TENANT_FULL
        for _ in range(4):
            places.enter_context(streams.hold_stream("modest"))
        assert reason(streams, "last") is RefusalReason.AGENT_FULL
    runs = StreamLimiter(per_tenant=2, total=4)
    with runs.hold_stream("a"), runs.hold_stream("a"), runs.hold_stream("b"), runs.hold_stream("b"):
        assert runs.count == 4


def test_places_come_back_whatever_happens():
    """A failed stream is no longer a stream."""
    streams = StreamLimiter(per_tenant=1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), streams.hold_stream("a"):
            raise ZeroDivisionError
    assert streams.count == 0


def test_nothing_new_while_draining():
    """Open streams go on."""
    streams = StreamLimiter()
    with streams.hold_stream("a"):
        streams.stop_accepting()
        assert reason(streams, "b") is RefusalReason.DRAINING
        assert streams.count == 1
