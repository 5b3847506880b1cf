"""Permits: by the tenant's policy alone, never by default, and never longer than it says."""

import asyncio

import pytest

from tenancy import agent_permissions
from tenancy.agent_permissions import Call, Switches
from tests.support.eventually import eventually
from tests.support.vnagent.certificates import VC_UID
from tests.support.vnagent.running_agent import OTHER, access
from vnagent.authz import metrics, permissions
from vnagent.authz.permissions import CALLS, Permits
from vnagent.protocol.errors import Reason, RefusedError
from vnagent.protocol.routes import Route, Verb


def bound(policy: str, **policies: list[Call]) -> dict[str, str]:
    """Return what is written of one tenant and some policies."""
    calls = {name: frozenset(calls) for name, calls in policies.items()}
    return {agent_permissions.DOCUMENT: agent_permissions.write(Switches(calls, {VC_UID: policy}))}


async def refusal(found: Permits, verb: Verb = Verb.EXEC, vc_uid: str = VC_UID) -> RefusedError:
    """Return why a session may not begin."""
    with pytest.raises(RefusedError) as refused:
        async with found.one(vc_uid, verb):
            pass
    assert found.count == 0
    return refused.value


def test_every_verb_that_reaches_into_a_pod_has_a_switch():
    """A verb without one could not be switched off; `run` is `exec` without a stream."""
    without = {Verb.HEALTH, *(verb for verb in Verb if Route(verb=verb, method="GET").is_read)}
    assert set(CALLS) == set(Verb) - without
    assert set(CALLS.values()) == set(Call)
    assert CALLS[Verb.RUN] is Call.EXEC


@pytest.mark.parametrize("verb", CALLS)
async def test_a_switch_is_for_one_kind_of_call_of_one_tenant(verb):
    """The sentence names the switch and the policy; other verbs and tenants go on."""
    found = Permits()
    found.learn(access(CALLS[verb]))
    error = await refusal(found, verb)
    assert (error.status, error.reason) == (403, Reason.SWITCHED_OFF)
    assert f"spec.access.{CALLS[verb].value} of its TenantPolicy 'shops' is false" in error.sentence
    for other in Verb:
        async with found.one(OTHER, other):
            pass
        if CALLS.get(other) is not CALLS[verb]:
            async with found.one(VC_UID, other):
                pass


@pytest.mark.parametrize(
    "data",
    [
        *(
            None,
            {},
            {"other": "x"},
            {agent_permissions.DOCUMENT: ""},
            {agent_permissions.DOCUMENT: "{}"},
        ),
        {agent_permissions.DOCUMENT: access()[agent_permissions.DOCUMENT][:-1]},
    ],
)
async def test_what_cannot_be_read_permits_nothing_new_and_ends_nothing(data):
    """Also when something could be read before."""
    found = Permits()
    assert (await refusal(found)).reason is Reason.NO_POLICY
    found.learn(access())
    async with found.one(VC_UID, Verb.EXEC):
        found.learn(data)
        await asyncio.sleep(0)
        with pytest.raises(RefusedError) as refused:
            async with found.one(VC_UID, Verb.EXEC):
                pass
        assert (refused.value.status, refused.value.reason) == (503, Reason.NO_POLICY)
        await asyncio.sleep(0.01)
    async with found.one(VC_UID, Verb.HEALTH):
        pass


@pytest.mark.parametrize(
    "document", ['{"policies":{},"tenants":{}}', access()[agent_permissions.DOCUMENT]]
)
async def test_a_tenant_that_is_not_listed_has_nothing(document):
    """Default closed."""
    found = Permits()
    found.learn({agent_permissions.DOCUMENT: document})
    error = await refusal(found, vc_uid="33333333-0000-4000-8000-000000000000")
    assert (error.status, error.reason) == (403, Reason.NO_POLICY)


async def test_a_policy_that_is_missing_has_nothing():
    """Its name is told, as somebody may have mistyped it."""
    found = Permits()
    found.learn(bound("typo", baseline=[Call.EXEC]))
    error = await refusal(found)
    assert (error.status, "TenantPolicy 'typo'" in error.sentence) == (403, True)


async def test_the_built_in_policy_is_one_like_the_others():
    """Of tenants that name none, where there is no object for it."""
    found = Permits()
    found.learn(bound("", **{"": [Call.EXEC]}))
    async with found.one(VC_UID, Verb.EXEC):
        pass
    assert "TenantPolicy 'baseline'" in (await refusal(found, Verb.LOGS)).sentence


async def test_a_session_ends_with_its_permit_and_others_go_on():
    """Whatever it waits for; the tenant's other verbs and the other tenant are not touched."""
    found = Permits()
    found.learn(access())
    ended: list[str] = []

    async def hold(name: str, vc_uid: str, verb: Verb) -> None:
        try:
            async with found.one(vc_uid, verb):
                await asyncio.Event().wait()
        except RefusedError as error:
            ended.append(f"{name} {error.reason.value}")

    held = [
        asyncio.ensure_future(hold("exec", VC_UID, Verb.EXEC)),
        asyncio.ensure_future(hold("logs", VC_UID, Verb.LOGS)),
        asyncio.ensure_future(hold("other", OTHER, Verb.EXEC)),
    ]
    await asyncio.sleep(0)
    assert found.count == 3
    found.learn(access(Call.EXEC))
    await asyncio.wait(held, return_when=asyncio.FIRST_COMPLETED, timeout=5)
    await asyncio.sleep(0.01)
    assert ended == ["exec switched_off"]
    assert found.count == 2
    for _ in range(2):  # told again before those that end have ended
        found.learn({agent_permissions.DOCUMENT: '{"policies":{},"tenants":{}}'})
        await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await asyncio.gather(*held)
    assert sorted(ended) == ["exec switched_off", "logs no_policy", "other no_policy"]
    assert found.count == 0


async def test_a_timeout_of_the_session_itself_stays_one():
    """It must not be taken for the end of a permit."""
    found = Permits()
    found.learn(access())
    with pytest.raises(TimeoutError):
        async with found.one(VC_UID, Verb.EXEC), asyncio.timeout(0):
            await asyncio.Event().wait()
    with pytest.raises(asyncio.CancelledError):
        async with found.one(VC_UID, Verb.EXEC):
            raise asyncio.CancelledError
    assert found.count == 0


async def test_what_nobody_renews_grows_old(monkeypatch):
    """A node that is cut off from the super cluster serves for a while, then nothing new."""
    found = Permits()
    found.learn(access())
    found.lose()
    async with found.one(VC_UID, Verb.EXEC):
        monkeypatch.setattr(permissions, "STALE_SECONDS", -1.0)
        with pytest.raises(RefusedError) as refused:
            async with found.one(VC_UID, Verb.EXEC):
                pass
        assert refused.value.status == 503
    found.learn(access())
    async with found.one(VC_UID, Verb.EXEC):
        pass


def state() -> str:
    """Return how the metric says that things stand."""
    (shown,) = metrics._POLICIES.collect()[0].samples
    assert shown.value == 1
    return shown.labels["state"]


async def test_how_policies_stand_is_shown_and_said(monkeypatch, capsys):
    """Each state once, also the one that nothing but time brings about."""
    monkeypatch.setattr(permissions, "STALE_SECONDS", 0.2)
    found = Permits()
    assert state() == "unknown"
    found.learn(access())
    assert state() == "followed"
    for _ in range(3):
        found.lose()
        assert state() == "kept"
    async with found.one(VC_UID, Verb.EXEC):
        pass
    await eventually(lambda: state() == "stale")
    assert (await refusal(found)).status == 503
    found.learn(access())
    assert state() == "followed"
    found.lose()
    found.learn(access())
    await asyncio.sleep(0.3)
    assert state() == "followed"
    found.learn(None)
    assert state() == "unknown"
    said = capsys.readouterr().out
    assert said.count("what is known counts") == 2
    assert said.count("not followed for too long") == 1


async def test_a_watch_that_fails_again_and_again_makes_nothing_young(monkeypatch):
    """Each try to follow fails; the time counts from the first."""
    monkeypatch.setattr(permissions, "STALE_SECONDS", 0.1)
    found = Permits()
    found.learn(access())

    def fails() -> bool:
        found.lose()
        return state() == "stale"

    await eventually(fails, within=5)
    assert (await refusal(found)).status == 503


async def test_what_is_followed_does_not_age(monkeypatch):
    """A manager that is away changes no policy; its absence is no reason to shut tenants out."""
    monkeypatch.setattr(permissions, "STALE_SECONDS", 0.0)
    found = Permits()
    found.learn(access(Call.LOGS))
    await asyncio.sleep(0.01)
    async with found.one(VC_UID, Verb.EXEC):
        pass
    assert (await refusal(found, Verb.LOGS)).reason is Reason.SWITCHED_OFF
    assert state() == "followed"


async def test_a_session_that_runs_outlives_a_stale_permit(monkeypatch):
    """Nothing was switched off; when changes are told of again, it is judged by them."""
    monkeypatch.setattr(permissions, "STALE_SECONDS", 0.02)
    found = Permits()
    found.learn(access())

    async def hold() -> None:
        async with found.one(VC_UID, Verb.EXEC):
            await asyncio.Event().wait()

    held = asyncio.ensure_future(hold())
    await asyncio.sleep(0)
    found.lose()
    await eventually(lambda: state() == "stale")
    await asyncio.sleep(0.02)
    assert found.count == 1
    found.learn(access(Call.EXEC))
    with pytest.raises(RefusedError) as refused:
        await held
    assert refused.value.reason is Reason.SWITCHED_OFF
