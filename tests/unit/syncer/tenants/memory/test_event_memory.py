"""Memory about Events: those that wait, and those that were synced back."""

from __future__ import annotations

import pytest

from syncer.model.keys import HOME, Key
from syncer.tenants.memory import event_memory
from tests.support.syncer.clocks import Clock

KEY = Key("vc", HOME, "Pod", "web", "p")


def test_an_event_is_reported_again_only_in_another_state():
    """REL-80."""
    memory = event_memory.EventMemory(Clock())
    memory.record_written_event(KEY, {"count": 1})
    assert memory.has_written_event(KEY)
    assert memory.was_state_written(KEY, {"count": 1})
    assert not memory.was_state_written(KEY, {"count": 2})


def test_the_newest_state_of_a_bounded_number_of_events_waits(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(event_memory, "MAX_PENDING_EVENTS", 1)
    memory = event_memory.EventMemory(Clock())
    assert memory.queue_event(KEY, {"count": 1})
    assert memory.queue_event(KEY, {"count": 2})
    assert not memory.queue_event(KEY._replace(name="q"), {"count": 1})
    assert memory.get_pending(KEY) == {"count": 2}
    memory.forget_event(KEY)
    assert memory.get_pending(KEY) is None


def test_the_wait_of_an_event_begins_with_the_first_look_at_it():
    clock = Clock()
    memory = event_memory.EventMemory(clock)
    assert memory.get_event_wait(KEY, 5.0) == 5.0
    clock.now += 3
    assert memory.get_event_wait(KEY, 5.0) == 2.0
    memory.forget_event(KEY)
    assert memory.get_event_wait(KEY, 5.0) == 5.0
