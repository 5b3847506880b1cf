"""The members of an etcd under random faults, tried at length: the property of the unit test."""

from __future__ import annotations

from hypothesis import given, settings

from tests.unit.vcmanager.phases.etcd.test_membership import SCRIPTS, check_script


@settings(max_examples=4000, deadline=None)
@given(SCRIPTS)
def test_no_own_step_costs_the_quorum_and_the_end_is_as_desired(script):
    """REL-120, REL-121."""
    check_script(script)
