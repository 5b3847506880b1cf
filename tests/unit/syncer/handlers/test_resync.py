"""A round of the resync: everything is looked at, and nothing twice."""

from __future__ import annotations

from collections import Counter

from syncer.handlers import resync as resyncs
from syncer.handlers.resync import Resync
from tests.support.syncer.woken_keys import wired


async def test_what_is_known_on_both_sides_is_looked_at_once(monkeypatch):
    world = wired()
    for name in ("a", "b"):
        world.tenant_has("Pod", name, spec={"containers": []})
        world.super_has("Pod", name, spec={"containers": []})
    world.tenant_has("Pod", "above", spec={"containers": []})
    world.super_has("Pod", "below", spec={"containers": []})
    looked: Counter[object] = Counter()
    monkeypatch.setattr(resyncs, "has_work", lambda key, _: looked.update([key]))
    await Resync({}).resync_session(world.session)
    pods = {key.name for key in looked if key.kind == "Pod"}
    assert pods == {"a", "b", "above", "below"}
    assert set(looked.values()) == {1}
