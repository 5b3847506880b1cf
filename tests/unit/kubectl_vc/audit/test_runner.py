"""Results from answers: the whole matrix, without a cluster."""

from __future__ import annotations

import pytest

from kubectl_vc.audit.decision import Verdict
from kubectl_vc.audit.probes import PACKET_PROBES, Answer, Place, Target
from kubectl_vc.audit.runner import judge_packets
from tests.unit.kubectl_vc.audit.test_addresses import FOUND

CONTROLS = (Place.DECOY_POD, Place.NODE)


def isolated() -> dict:
    """Return the answers of a cluster in which each row is as expected."""
    answers = {(place, each): Answer.OPEN for place in CONTROLS for each in FOUND}
    for probe in PACKET_PROBES:
        for each in FOUND:
            if each.target is probe.target:
                answers[probe.source, each] = (
                    Answer.OPEN if probe.expected is Answer.OPEN else Answer.TIMEOUT
                )
    return answers


def verdicts(answers) -> set[Verdict]:
    return {each.verdict for each in judge_packets(FOUND, answers)}


def test_an_isolated_tenant_passes_each_row():
    results = judge_packets(FOUND, isolated())
    assert {each.verdict for each in results} == {Verdict.PASSED}
    assert {each.probe for each in results} == {probe.name for probe in PACKET_PROBES}


@pytest.mark.parametrize("probe", PACKET_PROBES, ids=lambda probe: probe.name)
def test_a_planted_hole_is_found(probe):
    """Each row in turn: one address answers that must not, or does not answer that must."""
    answers = isolated()
    hole = next(each for each in FOUND if each.target is probe.target)
    is_positive = probe.expected is Answer.OPEN
    answers[probe.source, hole] = Answer.TIMEOUT if is_positive else Answer.OPEN
    failed = [each for each in judge_packets(FOUND, answers) if each.verdict is Verdict.FAILED]
    assert [(each.probe, hole.address in each.target) for each in failed] == [(probe.name, True)]


@pytest.mark.parametrize("place", [*CONTROLS, Place.TENANT_POD, Place.TENANT_API])
def test_without_a_place_its_rows_are_unknown(place):
    answers = {key: value for key, value in isolated().items() if key[0] is not place}
    results = judge_packets(FOUND, answers)
    for each, probe in ((each, probe) for each in results for probe in PACKET_PROBES):
        if each.probe == probe.name and place in (probe.source, probe.control):
            assert each.verdict is Verdict.UNKNOWN


def test_without_answers_nothing_passes():
    assert verdicts({}) == {Verdict.UNKNOWN}


def test_a_target_without_an_address_is_unknown():
    rest = [each for each in FOUND if each.target is not Target.KUBELET]
    found = [each for each in judge_packets(rest, isolated()) if each.probe.startswith("kubelet")]
    assert {(each.verdict, each.note) for each in found} == {
        (Verdict.UNKNOWN, "no address was found")
    }
