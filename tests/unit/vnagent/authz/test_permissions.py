"""Permits: by the tenant's policy alone, never by default, and never longer than it says."""

import asyncio

import pytest

from tenancy import agent_permissions
from tenancy.agent_permissions import AgentPermissions, KubeletCall
from tests.support.eventually import eventually
from tests.support.vnagent.certificates import VC_UID
from tests.support.vnagent.running_agent import OTHER, access
from vnagent.authz import metrics, permissions
from vnagent.authz.permissions import CALLS_BY_VERB, PermissionEnforcer
from vnagent.protocol.errors import RefusalReason, RequestRefusedError
from vnagent.protocol.routes import Route, RouteVerb


def bound(policy: str, **policies: list[KubeletCall]) -> dict[str, str]:
    """Return what is written of one tenant and some policies."""
    calls = {name: frozenset(calls) for name, calls in policies.items()}
    return {
        agent_permissions.DOCUMENT_KEY: agent_permissions.encode_permissions(
            AgentPermissions(calls, {VC_UID: policy})
        )
    }


async def refusal(
    found: PermissionEnforcer, verb: RouteVerb = RouteVerb.EXEC, vc_uid: str = VC_UID
) -> RequestRefusedError:
    """Return why a session may not begin."""
    with pytest.raises(RequestRefusedError) as refused:
        async with found.hold_permission(vc_uid, verb):
            pass
    assert found.count == 0
    return refused.value


def test_every_verb_that_reaches_into_a_pod_has_a_switch():
    """A verb without one could not be switched off. `run` is `exec` without a stream."""
    without = {
        RouteVerb.HEALTH,
        *(verb for verb in RouteVerb if Route(verb=verb, method="GET").is_read),
    }
    assert set(CALLS_BY_VERB) == set(RouteVerb) - without
    assert set(CALLS_BY_VERB.values()) == set(KubeletCall)
    assert CALLS_BY_VERB[RouteVerb.RUN] is KubeletCall.EXEC


@pytest.mark.parametrize("verb", CALLS_BY_VERB)
async def test_a_switch_is_for_one_kind_of_call_of_one_tenant(verb):
    """The sentence names the switch and the policy. Other verbs and tenants go on."""
    found = PermissionEnforcer()
    found.update(access(CALLS_BY_VERB[verb]))
    error = await refusal(found, verb)
    assert (error.status, error.reason) == (403, RefusalReason.SWITCHED_OFF)
    assert (
        f"spec.access.{CALLS_BY_VERB[verb].value} of its TenantPolicy 'shops' is false"
        in error.sentence
    )
    for other in RouteVerb:
        async with found.hold_permission(OTHER, other):
            pass
        if CALLS_BY_VERB.get(other) is not CALLS_BY_VERB[verb]:
            async with found.hold_permission(VC_UID, other):
                pass


@pytest.mark.parametrize(
    "data",
    [
        *(
            None,
            {},
            {"other": "x"},
            {agent_permissions.DOCUMENT_KEY: ""},
            {agent_permissions.DOCUMENT_KEY: "{}"},
        ),
        {agent_permissions.DOCUMENT_KEY: access()[agent_permissions.DOCUMENT_KEY][:-1]},
    ],
)
async def test_what_cannot_be_read_permits_nothing_new_and_ends_nothing(data):
    """Also when something could be read before."""
    found = PermissionEnforcer()
    assert (await refusal(found)).reason is RefusalReason.NO_POLICY
    found.update(access())
    async with found.hold_permission(VC_UID, RouteVerb.EXEC):
        found.update(data)
        await asyncio.sleep(0)
        with pytest.raises(RequestRefusedError) as refused:
            async with found.hold_permission(VC_UID, RouteVerb.EXEC):
                pass
        assert (refused.value.status, refused.value.reason) == (503, RefusalReason.NO_POLICY)
        await asyncio.sleep(0.01)
    async with found.hold_permission(VC_UID, RouteVerb.HEALTH):
        pass


@pytest.mark.parametrize(
    "document", ['{"policies":{},"tenants":{}}', access()[agent_permissions.DOCUMENT_KEY]]
)
async def test_a_tenant_that_is_not_listed_has_nothing(document):
    """Default closed."""
    found = PermissionEnforcer()
    found.update({agent_permissions.DOCUMENT_KEY: document})
    error = await refusal(found, vc_uid="33333333-0000-4000-8000-000000000000")
    assert (error.status, error.reason) == (403, RefusalReason.NO_POLICY)


async def test_a_policy_that_is_missing_has_nothing():
    """Its name is told, as someone may have mistyped it."""
    found = PermissionEnforcer()
    found.update(bound("typo", baseline=[KubeletCall.EXEC]))
    error = await refusal(found)
    assert (error.status, "TenantPolicy 'typo'" in error.sentence) == (403, True)


async def test_the_built_in_policy_is_one_like_the_others():
    """Permissions of tenants that name no policy, without an object of the default policy."""
    found = PermissionEnforcer()
    found.update(bound("", **{"": [KubeletCall.EXEC]}))
    async with found.hold_permission(VC_UID, RouteVerb.EXEC):
        pass
    assert "TenantPolicy 'baseline'" in (await refusal(found, RouteVerb.LOGS)).sentence


async def test_a_session_ends_with_its_permit_and_others_go_on():
    """Whatever it waits for. The tenant's other verbs and the other tenant are not touched."""
    found = PermissionEnforcer()
    found.update(access())
    ended: list[str] = []

    async def hold(name: str, vc_uid: str, verb: RouteVerb) -> None:
        try:
            async with found.hold_permission(vc_uid, verb):
                await asyncio.Event().wait()
        except RequestRefusedError as error:
            ended.append(f"{name} {error.reason.value}")

    held = [
        asyncio.ensure_future(hold("exec", VC_UID, RouteVerb.EXEC)),
        asyncio.ensure_future(hold("logs", VC_UID, RouteVerb.LOGS)),
        asyncio.ensure_future(hold("other", OTHER, RouteVerb.EXEC)),
    ]
    await asyncio.sleep(0)
    assert found.count == 3
    found.update(access(KubeletCall.EXEC))
    await asyncio.wait(held, return_when=asyncio.FIRST_COMPLETED, timeout=5)
    await asyncio.sleep(0.01)
    assert ended == ["exec disabled"]
    assert found.count == 2
    for _ in range(2):  # told again before those that end have ended
        found.update({agent_permissions.DOCUMENT_KEY: '{"policies":{},"tenants":{}}'})
        await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await asyncio.gather(*held)
    assert sorted(ended) == ["exec disabled", "logs no_policy", "other no_policy"]
    assert found.count == 0


async def test_a_timeout_of_the_session_itself_stays_one():
    """It must not be taken for the end of a permit."""
    found = PermissionEnforcer()
    found.update(access())
    with pytest.raises(TimeoutError):
        async with found.hold_permission(VC_UID, RouteVerb.EXEC), asyncio.timeout(0):
            await asyncio.Event().wait()
    with pytest.raises(asyncio.CancelledError):
        async with found.hold_permission(VC_UID, RouteVerb.EXEC):
            raise asyncio.CancelledError
    assert found.count == 0


async def test_what_no_one_renews_grows_old(monkeypatch):
    """A node that is cut off from the super cluster serves for a while, then nothing new."""
    found = PermissionEnforcer()
    found.update(access())
    found.mark_lost()
    async with found.hold_permission(VC_UID, RouteVerb.EXEC):
        monkeypatch.setattr(permissions, "STALE_SECONDS", -1.0)
        with pytest.raises(RequestRefusedError) as refused:
            async with found.hold_permission(VC_UID, RouteVerb.EXEC):
                pass
        assert refused.value.status == 503
    found.update(access())
    async with found.hold_permission(VC_UID, RouteVerb.EXEC):
        pass


def state() -> str:
    """Return how the metric says that things stand."""
    (shown,) = metrics._POLICIES.collect()[0].samples
    assert shown.value == 1
    return shown.labels["state"]


async def test_how_policies_stand_is_shown_and_reported(monkeypatch, capsys):
    """Each state once, also the one that nothing but time brings about."""
    monkeypatch.setattr(permissions, "STALE_SECONDS", 0.2)
    found = PermissionEnforcer()
    assert state() == "unknown"
    found.update(access())
    assert state() == "followed"
    for _ in range(3):
        found.mark_lost()
        assert state() == "kept"
    async with found.hold_permission(VC_UID, RouteVerb.EXEC):
        pass
    await eventually(lambda: state() == "stale")
    assert (await refusal(found)).status == 503
    found.update(access())
    assert state() == "followed"
    found.mark_lost()
    found.update(access())
    await asyncio.sleep(0.3)
    assert state() == "followed"
    found.update(None)
    assert state() == "unknown"
    said = capsys.readouterr().out
    assert said.count("updated, the known ones apply") == 2
    assert said.count("not updated for too long") == 1


async def test_a_watch_that_fails_again_and_again_makes_nothing_young(monkeypatch):
    """Each try to follow fails. The time counts from the first."""
    monkeypatch.setattr(permissions, "STALE_SECONDS", 0.1)
    found = PermissionEnforcer()
    found.update(access())

    def fails() -> bool:
        found.mark_lost()
        return state() == "stale"

    await eventually(fails, within=5)
    assert (await refusal(found)).status == 503


async def test_what_is_followed_does_not_age(monkeypatch):
    """A manager that is away changes no policy. Its absence is no reason to shut tenants out."""
    monkeypatch.setattr(permissions, "STALE_SECONDS", 0.0)
    found = PermissionEnforcer()
    found.update(access(KubeletCall.LOGS))
    await asyncio.sleep(0.01)
    async with found.hold_permission(VC_UID, RouteVerb.EXEC):
        pass
    assert (await refusal(found, RouteVerb.LOGS)).reason is RefusalReason.SWITCHED_OFF
    assert state() == "followed"


async def test_a_session_that_runs_outlives_a_stale_permit(monkeypatch):
    """Nothing was switched off. When changes are told of again, it is judged by them."""
    monkeypatch.setattr(permissions, "STALE_SECONDS", 0.02)
    found = PermissionEnforcer()
    found.update(access())

    async def hold() -> None:
        async with found.hold_permission(VC_UID, RouteVerb.EXEC):
            await asyncio.Event().wait()

    held = asyncio.ensure_future(hold())
    await asyncio.sleep(0)
    found.mark_lost()
    await eventually(lambda: state() == "stale")
    await asyncio.sleep(0.02)
    assert found.count == 1
    found.update(access(KubeletCall.EXEC))
    with pytest.raises(RequestRefusedError) as refused:
        await held
    assert refused.value.reason is RefusalReason.SWITCHED_OFF
