"""Memory of a session: fields that the tenant leaves out, and Events that it has posted."""

from __future__ import annotations

from syncer.model.keys import HOME, Key
from syncer.tenants import session_memory
from tests.support.syncer.clocks import Clock

KEY = Key("vc", HOME, "Pod", "web", "p")


def test_a_field_that_a_tenant_leaves_out_is_tried_again_after_a_while():
    clock = Clock()
    memory = session_memory.SessionMemory(clock)
    assert not memory.is_field_unknown("declaredFeatures")
    memory.record_unknown_fields(["declaredFeatures"])
    assert memory.is_field_unknown("declaredFeatures")
    assert not memory.is_field_unknown("features")
    clock.now += session_memory.UNKNOWN_FIELD_SECONDS
    assert not memory.is_field_unknown("declaredFeatures")


def test_an_event_is_told_again_only_in_another_state():
    """REL-80."""
    memory = session_memory.SessionMemory(Clock())
    memory.record_written_event(KEY, {"count": 1})
    assert memory.has_written_event(KEY)
    assert memory.was_state_written(KEY, {"count": 1})
    assert not memory.was_state_written(KEY, {"count": 2})
