"""Memory of a session: fields that the tenant leaves out, and Events that it has posted."""

from __future__ import annotations

from syncer.model.keys import HOME, Key
from syncer.tenants import session_memory
from tests.support.syncer.clocks import Clock

KEY = Key("vc", HOME, "Pod", "web", "p")


def test_a_field_that_a_tenant_leaves_out_is_tried_again_after_a_while():
    clock = Clock()
    memory = session_memory.Reminders(clock)
    assert not memory.is_left_out("declaredFeatures")
    memory.saw_left_out(["declaredFeatures"])
    assert memory.is_left_out("declaredFeatures")
    assert not memory.is_left_out("features")
    clock.now += session_memory.LEFT_OUT_SECONDS
    assert not memory.is_left_out("declaredFeatures")


def test_an_event_is_told_again_only_in_another_state():
    """REL-80."""
    memory = session_memory.Reminders(Clock())
    memory.told(KEY, {"count": 1})
    assert memory.has_told(KEY)
    assert memory.was_told(KEY, {"count": 1})
    assert not memory.was_told(KEY, {"count": 2})
