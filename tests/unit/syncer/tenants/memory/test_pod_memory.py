"""Memory about running pods."""

from __future__ import annotations

from syncer.model.keys import HOME, Key
from syncer.tenants.memory.pod_memory import PodMemory

KEY = Key("vc", HOME, "Pod", "web", "p")


def test_a_pod_is_in_sync_for_the_recorded_state_of_both_sides_only():
    memory = PodMemory()
    memory.record_in_sync(KEY, (1, 2))
    assert memory.is_in_sync(KEY, (1, 2))
    assert not memory.is_in_sync(KEY, (1, 3))
    memory.forget_pod(KEY)
    assert not memory.is_in_sync(KEY, (1, 2))
