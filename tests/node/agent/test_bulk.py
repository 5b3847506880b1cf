"""Much at once by way of the agent: a copy of a gibibyte, fifty connections to one port."""

import time
from collections.abc import Iterator

import pytest

from tests.node.agent import calls
from tests.node.agent.conftest import HELD, LARGE, MINORS
from tests.node.agent.rig import LISTS, AgentRig
from tests.support.kubectl import until

pytestmark = pytest.mark.node

LATE_BYTES, LATE_SECONDS = 6 * 1024 * 1024, 17.0
"""What sockets and buffers on the way hold, and time for three pings."""
GIBIBYTES = [
    LARGE[0],
    *(pytest.param(*each, marks=pytest.mark.slow) for each in LARGE[1:-1]),
    LARGE[-1],
]
"""More than a minute each: the newest kubectl and the oldest with every change."""
LATE = [
    pytest.param(
        minor, leg, marks=() if (minor, leg) in (LARGE[1], LARGE[-1]) else pytest.mark.slow
    )
    for minor in MINORS
    for leg in HELD
]
"""As long as three pings take: with every change each way once, of the newest and of the oldest."""


@pytest.fixture(scope="module")
def echo(rig: AgentRig) -> Iterator[str]:
    """A pod that sends back what it is sent."""
    rig.place(rig.tenant, calls.echo("echo"))
    rig.wait(rig.tenant, "echo")
    rig.tenant.kubectl.run("logs", "echo", "-f", "--limit-bytes=5")  # ends with "open"
    yield "echo"
    rig.super_kubectl.run("delete", "pod", "echo", "-n", rig.tenant.super_namespace())


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("user", "leg"), GIBIBYTES, indirect=True, ids=str)
def test_a_gibibyte_is_copied_both_ways(user, leg, pods, tmp_path):
    """REL-87: `kubectl cp`, by the checksums of the source, in the pod and of what comes back."""
    calls.copies_of_a_gibibyte(user, "tool", tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize(("user", "leg"), LATE, indirect=True, ids=str)
def test_who_reads_late_gets_all_of_it(rig, user, leg, pods):
    """REL-87: what is under way when the command ends arrives, within the deadline of such streams.

    kubectl pings every five seconds. A client that closes its socket loses what the socket still
    holds. The pings come as far as the agent where the API server relays WebSockets as they are.
    """
    known = len(rig.audit())
    script = f"head -c {LATE_BYTES} /dev/zero # late"
    with user.running("exec", "tool", "--", "sh", "-c", script) as process:
        time.sleep(LATE_SECONDS)
        assert "# late" not in user.run("exec", "tool", "--", "sh", "-c", LISTS), "it has ended"
        until(lambda: len(rig.audit()) > known, "the list is written down")
        assert len(rig.audit()) == known + 1, "the stream goes on"
        out, err = process.communicate(timeout=60)
    assert (len(out), err) == (LATE_BYTES, "")
    until(lambda: len(rig.audit()) == known + 2, "the stream is written down")
    assert rig.audit()[-1]["result"] == "complete"


def test_fifty_connections_to_a_port_keep_their_bytes_apart(user, leg, echo):
    """All are open before the first one sends, and each gets back what it sent itself."""
    calls.fifty_connections(user, echo)
