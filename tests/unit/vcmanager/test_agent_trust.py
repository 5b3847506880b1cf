import pytest

from kubeio.worker import Again, Wait
from tests.unit.vcmanager.factories import Recorder, fake_means
from vcmanager import agent_trust, keys


async def test_what_agents_trust_is_looked_at_again():
    means = fake_means(Recorder())
    assert await agent_trust.reconcile(means, keys.AGENT_TRUST) == Again(600.0)


async def test_an_authority_that_is_gone_is_waited_for():
    published = {"metadata": {"name": "vn-agent-trust"}, "data": {"client-ca.crt": "old"}}
    means = fake_means(Recorder({"vn-agent-trust": published}))
    with pytest.raises(Wait, match="restore it"):
        await agent_trust.reconcile(means, keys.AGENT_TRUST)
