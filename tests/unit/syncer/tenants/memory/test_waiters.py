"""Keys that wait for an object until a deadline."""

from __future__ import annotations

from syncer.model.keys import HOME, Key
from syncer.tenants.memory import waiters

KEY = Key("vc", HOME, "Pod", "web", "p")


# --- what one key has to tell another -------------------------------------------------------------


def test_who_waits_is_remembered_up_to_an_end(monkeypatch):
    monkeypatch.setattr(waiters, "MAX_WAITERS", 10)
    memory = waiters.Waiters()

    def key(name: str) -> Key:
        return KEY._replace(name=name)

    for number in range(30):
        memory.add_waiter(key("never"), key(f"p{number}"))
    assert len(memory.pop_waiters(key("never"))) == 10
    for number in range(30):
        memory.add_waiter(key(f"d{number}"), key("p"))
    waiting = [number for number in range(30) if memory.pop_waiters(key(f"d{number}"))]
    assert waiting == list(range(20, 30))
    memory.add_waiter(key("d"), key("p"))
    memory.add_waiter(key("d"), key("p"))
    assert memory._waiters == 1
    assert memory.pop_waiters(key("d")) == {key("p")}
    assert memory._waiters == 0
