"""The credential of a target's agent: its source and its renewal."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from kubeio import errors
from tenancy import wellknown
from tests.support.vcmanager.target_agents import (
    DAY,
    DEPLOYMENT,
    SECRET,
    THERE,
    container_of,
)
from vcmanager.targets import agent_objects, agents


async def test_a_token_is_made_there_and_an_agent_here(agent_world):
    said = await agent_world.keep()
    assert said[:2] == ("False", "NotRunning")
    assert agent_world.there.asked == [("virtual-cluster-d64ea0c0", "vn-agent", "token")]
    assert agent_world.home.calls == [("apply", SECRET), ("apply", DEPLOYMENT)]
    assert agent_world.home.token == "made-1"
    agent_world.home.runs()
    assert (await agent_world.keep())[:2] == ("True", "Serves")


async def test_at_rest_nothing_is_written_and_nothing_asked(agent_world):
    await agent_world.keep()
    agent_world.home.runs()
    agent_world.home.calls.clear()
    for _ in range(3):
        await agent_world.keep()
    assert agent_world.home.calls == []
    assert (len(agent_world.there.asked), len(agent_world.looked)) == (1, 1)


async def test_the_account_of_the_components_stays_out_of_it(agent_world):
    """The Secret has the token that was made and the authority. Nothing else of the endpoint."""
    await agent_world.keep()
    assert agent_world.home.mounted() == {"token": b"made-1", "ca.crt": b"CA"}
    assert len(agent_world.home.data()) == 2
    assert b"account-token" not in msgspec.json.encode(agent_world.home.bodies)
    (looked,) = agent_world.looked
    assert (looked.token, looked.server, looked.client_cert) == ("made-1", THERE.server, b"")


async def test_it_is_renewed_at_half_of_its_life_without_a_rollout(agent_world):
    await agent_world.keep()
    template = agent_world.home.template()
    agent_world.later(DAY * 0.49)
    await agent_world.keep()
    assert agent_world.home.token == "made-1"
    agent_world.there.lasts = 2 * DAY
    agent_world.later(DAY * 0.51)
    await agent_world.keep()
    assert agent_world.home.token == "made-2"
    assert agent_world.home.template() == template


@pytest.mark.parametrize(
    ("problem", "reason", "words"),
    [
        (errors.NotFound("x"), "NoAccount", "vn-agent in the target cluster is missing"),
        (errors.Forbidden("x"), "MissingRights", "serviceaccounts/token: create"),
        (errors.Timeout("slow"), "TokenCreateFailed", "slow"),
    ],
)
async def test_without_a_token_the_agent_runs_and_reports_it(agent_world, problem, reason, words):
    """The condition has the remedy."""
    agent_world.there.problem = problem
    said = await agent_world.keep()
    assert said[:2] == ("False", reason)
    assert words in said[2]
    if reason != "TokenCreateFailed":
        assert "kubectl vc target join c2" in said[2]
    assert agent_world.home.token is None
    before = agent_world.home.template()
    assert (
        before["metadata"]["annotations"][wellknown.SECRETS_DIGEST]
        == agent_objects.NO_CREDENTIAL_KEY
    )
    agent_world.there.problem = None
    await agent_world.keep()
    assert agent_world.home.token == "made-2"
    assert agent_world.home.template() != before


async def test_a_token_that_holds_is_kept_while_there_is_no_other(agent_world):
    """It is told before it ends, and taken away when it has ended."""
    await agent_world.keep()
    agent_world.home.runs()
    agent_world.there.problem = errors.Forbidden("x")
    agent_world.later(DAY * 0.6)
    status, reason, message = await agent_world.keep()
    assert (status, reason) == ("False", "MissingRights")
    assert "expires on 2026-03-02T12:00:00Z" in message
    assert agent_world.home.token == "made-1"
    agent_world.later(DAY)
    await agent_world.keep()
    assert agent_world.home.token is None


async def test_a_target_that_is_away_keeps_its_agent(agent_world):
    await agent_world.keep()
    agent_world.home.runs()
    agent_world.home.calls.clear()
    assert (await agent_world.keep(client=None))[:2] == ("Unknown", "NotReached")
    agent_world.later(DAY * 0.9)
    assert (await agent_world.keep(client=None))[:2] == ("Unknown", "NotReached")
    assert agent_world.home.calls == []


async def test_a_credential_that_was_taken_away_is_used_no_longer(agent_world):
    """Neither in the Secret nor by a pod that has read it."""
    await agent_world.keep()
    agent_world.home.runs()
    before = agent_world.home.template()
    said = await agent_world.keep(endpoint=None, client=None)
    assert said[:2] == ("False", "NoCredential")
    assert agent_world.home.token is None
    assert (
        agent_world.home.template()["metadata"]["annotations"] != before["metadata"]["annotations"]
    )
    env = agent_world.home.template()["spec"]["containers"][0]["env"]
    assert {"name": "TARGET_SERVER", "value": agent_objects.PLACEHOLDER_SERVER} in env


@pytest.mark.parametrize(
    "other",
    [
        replace(THERE, server="https://10.0.0.6:6443"),
        replace(THERE, ca=b"another"),
        replace(THERE, tls_server_name="far"),
    ],
)
async def test_a_token_for_one_server_is_not_shown_to_another(agent_world, other):
    """Not even while the other one is not reached."""
    await agent_world.keep()
    await agent_world.keep(endpoint=other, client=None)
    assert agent_world.home.token is None
    await agent_world.keep(endpoint=other)
    assert agent_world.home.token == "made-2"
    env = {each["name"]: each.get("value") for each in container_of(agent_world)["env"]}
    assert env["TARGET_SERVER"] == other.server
    assert env.get("TARGET_SERVER_NAME", "") == other.tls_server_name


async def test_an_endpoint_without_an_authority_is_none_for_agents(agent_world):
    said = await agent_world.keep(endpoint=replace(THERE, ca=b""))
    assert said[:2] == ("False", "NoAuthority")
    assert (agent_world.home.token, agent_world.there.asked) == (None, [])


ENDS = "2026-03-02T12:00:00Z"


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"status": None},
        {"status": {"token": "t"}},
        {"status": {"token": "", "expirationTimestamp": ENDS}},
        {"status": {"token": "a\nb", "expirationTimestamp": ENDS}},
        {"status": {"token": "a" * 20_000, "expirationTimestamp": ENDS}},
        {"status": {"token": ["t"], "expirationTimestamp": ENDS}},
        {"status": {"token": "t", "expirationTimestamp": "soon"}},
        {"status": {"token": "t", "expirationTimestamp": "2026-03-02T12:00:00"}},
        {"status": {"token": "t", "expirationTimestamp": "2020-01-01T00:00:00Z"}},
        {"status": "odd"},
    ],
)
async def test_what_is_no_token_is_not_written(agent_world, answer):
    """The other side may be anyone."""
    agent_world.there.answer = answer
    assert (await agent_world.keep())[:2] == ("False", "TokenCreateFailed")
    assert agent_world.home.token is None


async def test_an_answer_that_lasts_for_years_is_renewed_as_any_other(agent_world):
    agent_world.there.lasts = 1000 * DAY
    await agent_world.keep()
    agent_world.later(DAY * 0.51)
    await agent_world.keep()
    assert agent_world.home.token == "made-2"


async def test_a_token_of_an_account_that_was_recreated_is_replaced(agent_world):
    """The removal of an account ends its rights. A new join creates another of the same name."""
    await agent_world.keep()
    agent_world.look_problem = errors.Unauthorized("no such account")
    agent_world.later(timedelta(seconds=agents.CHECK_SECONDS))
    assert (await agent_world.keep())[:2] == ("False", "NotAccepted")
    assert agent_world.home.token is None
    agent_world.look_problem = None
    assert (await agent_world.keep())[:2] == ("False", "NotRunning")
    assert agent_world.home.token == "made-2"
