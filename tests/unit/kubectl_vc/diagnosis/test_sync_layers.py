"""Layers of the sync of one object: seeded faults, and the layer that is named first."""

import pytest

from tests.support.kubectl_vc.layer_faults import SYNC_LAYER_FAULTS, assert_named


@pytest.mark.parametrize("name", SYNC_LAYER_FAULTS)
def test_fault_is_named_by_its_layer(name):
    assert_named(SYNC_LAYER_FAULTS[name])
