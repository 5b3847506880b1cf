"""Each key goes to the session of its super cluster."""

from __future__ import annotations

import pytest

from kubeio.controller.worker import Done, Result
from syncer.handlers import dispatcher
from syncer.handlers.dispatcher import Dispatcher, build_log_fields
from syncer.model.keys import HOME, TOKEN, Key
from syncer.tenants.session import Session
from tests.support.syncer.sessions import TENANT
from tests.support.syncer.two_clusters import SplitWorld


async def test_a_key_is_worked_on_by_the_session_of_its_super_cluster(
    split: SplitWorld, monkeypatch: pytest.MonkeyPatch
):
    worked: list[Session] = []

    async def flow(_: Key, session: Session) -> Result:
        worked.append(session)
        return Done()

    for table in (dispatcher._BY_KEY_KIND, dispatcher._BY_KEY_KIND_AT_TARGETS):
        monkeypatch.setitem(table, TOKEN, flow)  # type: ignore[arg-type]
    found = Dispatcher({HOME: {TENANT.uid: split.session}, "c2": {TENANT.uid: split.far}})
    for session in (split.session, split.far):
        await found.reconcile(session.build_key(TOKEN, "", ""))
    assert worked == [split.session, split.far]
    elsewhere = split.key(TOKEN, "", "")._replace(super_cluster="c3")
    assert await found.reconcile(elsewhere) == Done()
    assert worked == [split.session, split.far], "c3 has no session, so no flow runs"


def test_a_log_names_the_super_cluster_when_it_is_not_home(split: SplitWorld):
    assert "super_cluster" not in build_log_fields(split.key("Pod", "web", "p"))
    assert build_log_fields(split.far.build_key("Pod", "web", "p"))["super_cluster"] == "c2"
