"""Results from answers: the whole matrix, without a cluster."""

from __future__ import annotations

import pytest
from msgspec import structs

from kubectl_vc.audit.decision import Verdict
from kubectl_vc.audit.probes import PACKET_PROBES, Answer, Place, Target
from kubectl_vc.audit.runner import judge_packets
from tenancy.policies import BASELINE_POLICY
from tests.unit.kubectl_vc.audit.test_addresses import DUAL, FOUND

CONTROLS = (Place.DECOY_POD, Place.NODE)
SOURCES = (Place.TENANT_POD, Place.TENANT_API)
BOTH = dict.fromkeys(SOURCES, frozenset({4, 6}))
IPV4 = dict.fromkeys(SOURCES, frozenset({4}))


def isolated(listed=DUAL) -> dict:
    """Return the answers of a cluster in which each row is as expected."""
    answers = {(place, each): Answer.OPEN for place in CONTROLS for each in listed}
    for probe in PACKET_PROBES:
        for each in listed:
            if each.target is probe.target:
                answers[probe.source, each] = (
                    Answer.OPEN if probe.expected is Answer.OPEN else Answer.TIMEOUT
                )
    return answers


def verdicts(answers) -> set[Verdict]:
    return {each.verdict for each in judge_packets(DUAL, answers, BOTH)}


def test_an_isolated_tenant_passes_each_row():
    results = judge_packets(DUAL, isolated(), BOTH)
    assert {each.verdict for each in results} == {Verdict.PASSED}
    assert {each.probe for each in results} == {probe.name for probe in PACKET_PROBES}


@pytest.mark.parametrize("probe", PACKET_PROBES, ids=lambda probe: probe.name)
def test_a_planted_hole_is_found(probe):
    """Each row in turn: one address answers that must not, or does not answer that must."""
    answers = isolated()
    hole = next(each for each in DUAL if each.target is probe.target)
    is_positive = probe.expected is Answer.OPEN
    answers[probe.source, hole] = Answer.TIMEOUT if is_positive else Answer.OPEN
    results = judge_packets(DUAL, answers, BOTH)
    failed = [each for each in results if each.verdict is Verdict.FAILED]
    assert [(each.probe, hole.address in each.target) for each in failed] == [(probe.name, True)]


@pytest.mark.parametrize("place", [*CONTROLS, Place.TENANT_POD, Place.TENANT_API])
def test_without_a_place_its_rows_are_unknown(place):
    answers = {key: value for key, value in isolated().items() if key[0] is not place}
    results = judge_packets(DUAL, answers, BOTH)
    for each, probe in ((each, probe) for each in results for probe in PACKET_PROBES):
        if each.probe == probe.name and place in (probe.source, probe.control):
            assert each.verdict is Verdict.UNKNOWN


def test_without_answers_nothing_passes():
    assert verdicts({}) == {Verdict.UNKNOWN}


def test_a_target_without_an_address_is_unknown():
    rest = [each for each in DUAL if each.target is not Target.KUBELET]
    results = judge_packets(rest, isolated(), BOTH)
    found = [each for each in results if each.probe.startswith("kubelet")]
    assert {(each.verdict, each.note) for each in found} == {
        (Verdict.UNKNOWN, "no address was found")
    }


@pytest.mark.parametrize(
    ("fields", "row", "reason"),
    [
        ({"node_dns": "Allow"}, "super-dns-from-pod", "nodeDns of the policy allows it"),
        ({"service_types": ("ClusterIP",)}, "decoy-node-port-from-api", "has no NodePort"),
        ({"service_types": ("ClusterIP",)}, "decoy-node-port-from-pod", "has no NodePort"),
    ],
)
def test_a_row_that_the_policy_decides_is_absent(fields, row, reason):
    """Otherwise an audit under the policy restricted would never be complete."""
    network = structs.replace(BASELINE_POLICY.network, **fields)
    policy = structs.replace(BASELINE_POLICY, network=network)
    rest = [each for each in DUAL if each.target is not Target.DECOY_NODE_PORT or "dns" in row]
    results = judge_packets(rest, isolated(), BOTH, policy=policy)
    (found,) = [each for each in results if each.probe == row]
    assert (found.verdict, reason in found.note) == (Verdict.ABSENT, True)
    assert {each.verdict for each in results} == {Verdict.PASSED, Verdict.ABSENT}


# --- IP families ----------------------------------------------------------------------------------

NEGATIVES = [probe for probe in PACKET_PROBES if probe.expected is not Answer.OPEN]


@pytest.mark.parametrize("probe", NEGATIVES, ids=lambda probe: probe.name)
def test_a_plugin_that_enforces_ipv4_only_leaves_a_hole_in_each_row(probe):
    answers = isolated()
    for each in DUAL:
        if each.target is probe.target and each.family == 6:
            answers[probe.source, each] = Answer.OPEN
    results = judge_packets(DUAL, answers, BOTH)
    failed = {each.probe for each in results if each.verdict is Verdict.FAILED}
    assert failed == {probe.name}


def test_without_ipv6_the_rows_about_it_are_absent():
    answers = isolated(FOUND)
    for place in (*SOURCES, *CONTROLS):
        answers |= {(place, each): Answer.REFUSED for each in FOUND if each.family == 6}
    results = judge_packets(FOUND, answers, IPV4)
    absent = {each.probe for each in results if each.verdict is Verdict.ABSENT}
    assert absent == {"metadata-from-pod", "metadata-from-api"}
    assert {each.verdict for each in results} == {Verdict.PASSED, Verdict.ABSENT}
    assert all("[fd" in each.target for each in results if each.verdict is Verdict.ABSENT)


@pytest.mark.parametrize("source", SOURCES)
def test_a_source_whose_ipv6_is_broken_proves_nothing_there(source):
    """Its closed connections must not pass by the proof of IPv4."""
    answers = isolated()
    answers |= {(source, each): Answer.TIMEOUT for each in DUAL if each.family == 6}
    results = judge_packets(DUAL, answers, BOTH)
    names = {probe.name for probe in NEGATIVES if probe.source is source}
    about_ipv6 = [each for each in results if each.probe in names and "[fd" in each.target]
    assert about_ipv6
    assert {each.verdict for each in about_ipv6} == {Verdict.UNKNOWN}


def test_a_source_without_any_address_proves_nothing():
    answers = dict.fromkeys(isolated(), Answer.TIMEOUT)
    results = judge_packets(DUAL, answers, dict.fromkeys(SOURCES, frozenset()))
    assert Verdict.ABSENT not in {
        each.verdict for each in results if each.probe in {probe.name for probe in NEGATIVES}
    }
