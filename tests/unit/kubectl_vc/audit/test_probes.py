"""The tables of the audit: each negative has a control, and each pair of the matrix has a row."""

from __future__ import annotations

import itertools

import pytest

from kubectl_vc.audit.object_probes import OBJECT_PROBES
from kubectl_vc.audit.probes import (
    PACKET_PROBES,
    SOURCE_PROOFS,
    Answer,
    Place,
    Target,
)

SOURCES = (Place.TENANT_POD, Place.TENANT_API)
FORBIDDEN = (
    Target.DECOY_POD,
    Target.DECOY_SERVICE,
    Target.DECOY_NODE_PORT,
    Target.DECOY_API,
    Target.DECOY_API_SERVICE,
    Target.DECOY_CONTROL_PLANE,
    Target.COMPONENT,
    Target.SUPER_API,
    Target.KUBELET,
    Target.METADATA,
)
ROWS = {(probe.source, probe.target): probe for probe in PACKET_PROBES}


def test_names_are_unique():
    named = [probe.name for probe in (*PACKET_PROBES, *OBJECT_PROBES)]
    assert len(named) == len(set(named))
    assert len(ROWS) == len(PACKET_PROBES)


@pytest.mark.parametrize("probe", PACKET_PROBES, ids=lambda probe: probe.name)
def test_a_row_that_expects_a_closed_connection_has_a_control(probe):
    assert (probe.control is None) == (probe.expected is Answer.OPEN)
    assert probe.control not in SOURCES


@pytest.mark.parametrize(("source", "target"), [*itertools.product(SOURCES, FORBIDDEN)])
def test_each_pair_of_the_matrix_is_closed(source, target):
    assert ROWS[source, target].expected is Answer.REFUSED


@pytest.mark.parametrize(
    "target", [Target.OWN_ETCD, Target.OWN_ETCD_METRICS, Target.AGENT, Target.SUPER_DNS]
)
def test_a_pod_reaches_no_port_that_is_only_its_control_planes(target):
    assert ROWS[Place.TENANT_POD, target].expected is Answer.REFUSED


def test_each_source_has_a_target_that_it_must_reach():
    assert set(SOURCE_PROOFS) == set(SOURCES)
    for source, target in SOURCE_PROOFS.items():
        assert ROWS[source, target].expected is Answer.OPEN


def test_each_target_has_a_row():
    assert {probe.target for probe in PACKET_PROBES} == set(Target)
