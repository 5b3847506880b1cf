"""Grace periods after which an object that is no longer needed is deleted."""

from __future__ import annotations

from syncer.model.keys import HOME, Key
from syncer.tenants.memory import grace_timers
from tests.support.syncer.clocks import Clock

KEY = Key("vc", HOME, "Pod", "web", "p")


def test_what_lingers_is_remembered_up_to_an_end(monkeypatch):
    monkeypatch.setattr(grace_timers, "MAX_UNUSED", 5)
    clock = Clock()
    memory = grace_timers.GraceTimers(clock)
    for number in range(20):
        assert (
            memory.get_remaining_grace(KEY._replace(name=str(number)))
            == memory.grace_period_seconds
        )
    assert len(memory._unused_since) == 5
    clock.now += memory.grace_period_seconds
    assert memory.get_remaining_grace(KEY._replace(name="19")) == 0
    assert len(memory._unused_since) == 4
