"""One node's agent dies: what is asked of that node fails and says why, and nothing else does."""

import pytest

from tests.node.agent import target_agent
from tests.node.agent.rig import SLEEPER
from tests.support import node_objects
from tests.support.kubectl import until

pytestmark = pytest.mark.node


def test_only_the_pods_of_its_node_are_out_of_reach(rig, pods):
    """REL-93: the tenant's API server names the address that does not answer."""
    user = rig.tenant.kubectl
    with target_agent.beside(rig) as there:
        there.place(there.tenant, node_objects.pod("alone", "echo here I am; " + SLEEPER))
        there.wait(there.tenant, "alone")
        until(lambda: user.run("logs", "alone") == "here I am\n", "its log is to be had")
        there.agent.kill()
        for asked in (("logs", "alone"), ("exec", "alone", "--", "true")):
            done = user.call(*asked)
            assert done.code == 1
            assert f":{there.port}: connect: connection refused" in done.err, done.err
            assert there.tenant.super_namespace() not in done.err
        assert user.run("logs", "talker", "-c", "side") == "beside\n"
        assert user.run("exec", "tool", "--", "echo", "inside") == "inside\n"
        assert there.wait(there.tenant, "alone")["status"]["phase"] == "Running"
