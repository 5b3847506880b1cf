"""What a session leaves behind: a line without secrets, numbers without end of names."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from vnagent import audit
from vnagent.identity import Caller
from vnagent.pump import End
from vnagent.refusals import Reason
from vnagent.routes import Route, Verb

CALLER = Caller("0f0e0d0c-0b0a-4900-8800-070605040302", "default-b41df0-one", datetime.now(UTC))
RESULTS = [*End, *Reason, "kubelet_refused", "drained"]


def series() -> int:
    """Count the agent's series as the program shows them, without times of creation."""
    families = (f for f in REGISTRY.collect() if f.name.startswith("vc_agent"))
    samples = (sample.name for family in families for sample in family.samples)
    return sum(not name.endswith("_created") for name in samples)


@given(st.sampled_from(Verb), st.sampled_from(RESULTS), st.text(max_size=20), st.text(max_size=20))
def test_series_do_not_grow_with_what_callers_invent(verb, result, namespace, pod):
    """SEC-14: labels are verbs and results, both closed sets."""
    route = Route(verb=verb, method="GET", tenant_namespace=namespace, pod=pod, container=pod)
    session = audit.Session(CALLER, route=route, result=str(result), bytes_up=1, bytes_down=2)
    audit.record(session)
    assert series() <= 200


def test_the_line_has_no_command(capsys):
    """A command may hold a password."""
    query = (("command", "pa55word"),)
    route = Route(verb=Verb.EXEC, method="POST", pod="shop", container="main", query=query)
    audit.record(audit.Session(CALLER, route=route, result="complete"))
    line = capsys.readouterr().out
    assert "shop" in line
    assert "pa55word" not in line
