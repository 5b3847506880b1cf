"""Layers of a pod where it runs: seeded faults, and the layer that is named first."""

import pytest

from kubectl_vc.diagnosis.layer_table import diagnose
from kubectl_vc.diagnosis.layers import LAYERS
from tests.support.kubectl_vc.layer_faults import POD_LAYER_FAULTS, assert_named


@pytest.mark.parametrize("name", POD_LAYER_FAULTS)
def test_fault_is_named_by_its_layer(name):
    assert_named(POD_LAYER_FAULTS[name])


def test_end_of_a_container_is_described_as_it_is():
    done = diagnose(POD_LAYER_FAULTS["container fails, not restarted"][0], LAYERS).finding
    assert done.sentence == "The container c ended with exit code 1 and is not restarted."
    assert "--previous" not in done.next_command
    again = diagnose(POD_LAYER_FAULTS["container crashes"][0], LAYERS).finding
    assert "is restarted with growing delays" in again.sentence
    assert again.next_command.endswith("--previous")
