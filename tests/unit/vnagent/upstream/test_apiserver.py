"""Limits of the calls that an agent makes to the API server."""

import asyncio

from tests.support.vnagent import running_agent
from tests.support.vnagent.certificates import named
from tests.support.vnagent.running_agent import LOGS, api_server, astray, shop
from vnagent.authz import pod_authorizer
from vnagent.upstream import apiserver


async def test_hammering_is_not_handed_on(tmp_path, monkeypatch):
    """Requests for missing pods make as few lists as requests for pods that exist."""
    monkeypatch.setattr(pod_authorizer, "MIN_LIST_INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr(apiserver, "LIST_INTERVAL_SECONDS", 0.4)
    began = asyncio.get_running_loop().time()
    async with astray(tmp_path, api_server()) as set_up:
        missing = LOGS.replace(b"shop", b"gone")
        for _ in range(12):
            assert running_agent.status_of(await set_up.send(missing)) == 404
        lists = len(set_up.api.heads)
        spent = asyncio.get_running_loop().time() - began
    assert set_up.api.asked == []
    # However long it took, which depends on the machine: the burst, and one per interval.
    assert lists <= apiserver.LIST_BURST + spent / 0.4 + 1


async def test_a_tenant_has_its_own_share_of_calls(tmp_path, monkeypatch, recorded):
    """A caller that loops over exec is slowed down. Others are not affected."""
    monkeypatch.setattr(apiserver, "CALL_BURST", 3)
    monkeypatch.setattr(apiserver, "CALL_INTERVAL_SECONDS", 3600.0)
    other = "22222222-0000-4000-8000-000000000000"
    guest = shop(vc_uid=other)
    guest["metadata"] = {**guest["metadata"], "namespace": "default-b41df0-two-web"}
    async with astray(tmp_path, api_server(pods=[shop(), guest])) as set_up:
        found = [running_agent.status_of(await set_up.send(LOGS)) for _ in range(5)]
        assert found == [200, 200, 200, 429, 429]
        theirs = await set_up.send(LOGS, set_up.context(named(f"vc://{other}/default-b41df0-two")))
        assert running_agent.status_of(theirs) == 200
        assert len(set_up.api.asked) == 4
    assert recorded[3].result == "tenant_fast"
