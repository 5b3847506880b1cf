"""Whether a target has its agent, whose that is, and what is said of it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kubeio import errors
from tenancy import wellknown
from tests.support.vcmanager.factories import fake_means
from tests.support.vcmanager.target_agents import DEPLOYMENT, SECRET, TITLE, UID
from vcmanager.runtime import keys
from vcmanager.runtime.keys import ReconcileKey
from vcmanager.targets import agents
from vcmanager.targets.required_permissions import RequiredPermission


async def test_missing_rights_are_named_and_looked_at_again(agent_world):
    agent_world.lacking = [
        RequiredPermission("", "pods/exec", "create"),
        RequiredPermission("", "pods/exec", "get"),
    ]
    status, reason, message = await agent_world.keep()
    assert (status, reason) == ("False", "MissingRights")
    assert "pods/exec: create, get" in message
    agent_world.lacking = []
    agent_world.home.runs()
    assert (await agent_world.keep())[1] == "MissingRights", "not asked about with each look"
    agent_world.later(timedelta(seconds=agents.UNHEALTHY_CHECK_SECONDS))
    assert (await agent_world.keep())[1] == "Serves"


async def test_a_token_that_is_not_taken_is_reported(agent_world):
    agent_world.look_problem = errors.Unauthorized("no")
    assert (await agent_world.keep())[:2] == ("False", "NotAccepted")


async def test_who_is_gone_has_no_agent(agent_world):
    """Also when its SuperCluster was deleted so that what hangs on it stays."""
    await agent_world.keep()
    await agents.delete_agent(agent_world.means, "c2")
    assert agent_world.home.objects == {}
    await agents.delete_agent(agent_world.means, "c2")


async def test_what_has_the_name_of_one_and_is_none_stays(agent_world):
    agent_world.home.objects[SECRET] = {"metadata": {"name": TITLE, "namespace": "n", "uid": "u"}}
    await agents.delete_agent(agent_world.means, "c2")
    assert SECRET in agent_world.home.objects


@pytest.mark.parametrize("name", [SECRET, DEPLOYMENT])
async def test_what_is_another_owners_is_left_alone(agent_world, name):
    theirs = {"metadata": {"name": TITLE, "namespace": "vc-manager", "uid": "theirs"}}
    agent_world.home.objects[name] = theirs
    status, reason, message = await agent_world.keep()
    assert (status, reason) == ("False", "NameTaken")
    assert name.partition("/")[0] in message
    assert agent_world.home.objects[name] is theirs


async def test_what_an_earlier_registration_left_is_taken_away_first(agent_world):
    """Its selector cannot change, and its pods ask for pods of a registration that is gone."""
    await agent_world.keep(uid="11111111-0000-4000-8000-000000000000")
    assert (await agent_world.keep())[:2] == ("False", "NameTaken")
    for _ in range(2):
        await agent_world.keep()
    assert agent_world.home.token is not None
    labels = agent_world.home.objects[DEPLOYMENT]["metadata"]["labels"]
    assert labels[wellknown.SUPER_CLUSTER] == UID


@pytest.mark.parametrize("name", [SECRET, DEPLOYMENT])
async def test_what_the_home_cluster_refuses_is_reported_and_nothing_else(agent_world, name):
    agent_world.home.problems["apply", name] = errors.Forbidden("quota")
    status, reason, message = await agent_world.keep()
    assert (status, reason) == ("False", "AgentCreateFailed")
    assert "quota" in message


async def test_agents_without_settings(agent_world):
    agent_world.means = fake_means(agent_world.home)
    assert (await agent_world.keep())[:2] == ("False", "NotConfigured")
    assert agent_world.home.calls == []


async def test_both_enqueue_the_super_cluster(agent_world):
    await agent_world.keep()
    for name in (SECRET, DEPLOYMENT):
        found = keys.get_owner_key(agent_world.home.objects[name]["metadata"])
        assert found == ReconcileKey("SuperCluster", "", "c2")
    assert keys.get_owner_key({"labels": {wellknown.COMPONENT: wellknown.TARGET_AGENT}}) is None


async def test_a_manager_that_lost_its_lease_writes_nothing(agent_world):
    agent_world.home.problems["apply", SECRET] = errors.Fenced("lost")
    with pytest.raises(errors.Fenced):
        await agent_world.keep()
