"""Verdicts: a closed connection without a passed control is unknown, and never passed."""

from __future__ import annotations

import itertools

import pytest

from kubectl_vc.audit.decision import Verdict, judge_object, judge_packet
from kubectl_vc.audit.probes import Answer, PacketProbe, Place, Target

OPEN, REFUSED, TIMEOUT, MISSING, CHANGED = Answer
NEGATIVE = PacketProbe("x", Place.TENANT_POD, Target.DECOY_POD, REFUSED, Place.NODE)
OPTIONAL = PacketProbe("x", Place.TENANT_POD, Target.METADATA, REFUSED, Place.NODE, True)
POSITIVE = PacketProbe("x", Place.TENANT_POD, Target.OWN_API, OPEN)


def verdict(probe, seen, source_proof, control):
    return judge_packet(probe, seen, source_proof=source_proof, control=control)[0]


@pytest.mark.parametrize("probe", [NEGATIVE, OPTIONAL])
@pytest.mark.parametrize(("seen", "proof", "control"), [*itertools.product(Answer, Answer, Answer)])
def test_a_negative_passes_only_with_both_controls(probe, seen, proof, control):
    found = verdict(probe, seen, proof, control)
    assert (found is Verdict.FAILED) == (seen is OPEN)
    assert (found is Verdict.PASSED) == (
        seen in (REFUSED, TIMEOUT) and proof is OPEN and control is OPEN
    )


@pytest.mark.parametrize(
    ("probe", "control", "expected"),
    [
        (NEGATIVE, REFUSED, Verdict.UNKNOWN),
        (NEGATIVE, TIMEOUT, Verdict.UNKNOWN),
        (NEGATIVE, MISSING, Verdict.UNKNOWN),
        (NEGATIVE, CHANGED, Verdict.UNKNOWN),
        (OPTIONAL, REFUSED, Verdict.ABSENT),
        (OPTIONAL, TIMEOUT, Verdict.ABSENT),
        (OPTIONAL, MISSING, Verdict.UNKNOWN),
        (OPTIONAL, CHANGED, Verdict.UNKNOWN),
    ],
)
def test_only_an_optional_server_may_be_absent(probe, control, expected):
    assert verdict(probe, TIMEOUT, OPEN, control) is expected


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (OPEN, Verdict.PASSED),
        (REFUSED, Verdict.FAILED),
        (TIMEOUT, Verdict.FAILED),
        (MISSING, Verdict.UNKNOWN),
        (CHANGED, Verdict.UNKNOWN),
    ],
)
def test_an_expected_answer_needs_no_control(seen, expected):
    assert verdict(POSITIVE, seen, MISSING, MISSING) is expected


@pytest.mark.parametrize("probe", [NEGATIVE, OPTIONAL])
@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (OPEN, Verdict.FAILED),
        (REFUSED, Verdict.ABSENT),
        (TIMEOUT, Verdict.ABSENT),
        (MISSING, Verdict.UNKNOWN),
        (CHANGED, Verdict.UNKNOWN),
    ],
)
def test_a_source_without_the_ip_family_proves_nothing(probe, seen, expected):
    assert verdict(probe, seen, None, OPEN) is expected


@pytest.mark.parametrize(
    ("probe", "seen", "control", "expected"),
    [
        (NEGATIVE, OPEN, REFUSED, Verdict.FAILED),
        (NEGATIVE, TIMEOUT, OPEN, Verdict.PASSED),
        (NEGATIVE, TIMEOUT, REFUSED, Verdict.ABSENT),
        (NEGATIVE, TIMEOUT, MISSING, Verdict.UNKNOWN),
        (POSITIVE, OPEN, MISSING, Verdict.PASSED),
        (POSITIVE, REFUSED, MISSING, Verdict.ABSENT),
        (POSITIVE, MISSING, MISSING, Verdict.UNKNOWN),
    ],
)
def test_a_server_may_not_listen_at_its_further_address(probe, seen, control, expected):
    found = judge_packet(probe, seen, source_proof=OPEN, control=control, is_optional=True)
    assert found[0] is expected


@pytest.mark.parametrize(
    ("is_hole", "control", "expected"),
    [
        (True, True, Verdict.FAILED),
        (True, False, Verdict.FAILED),
        (False, True, Verdict.PASSED),
        (None, True, Verdict.PASSED),
        (False, False, Verdict.UNKNOWN),
        (None, False, Verdict.UNKNOWN),
    ],
)
def test_a_refused_object_passes_only_if_a_plain_one_is_synced(is_hole, control, expected):
    assert judge_object(is_hole=is_hole, control=control)[0] is expected
