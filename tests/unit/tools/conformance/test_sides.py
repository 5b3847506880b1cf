"""A side has its minors in its name, and the control is of the super cluster's minor."""

import pytest

from clusterversions import catalog
from tools.conformance import sides
from tools.testbed.errors import TestbedError

OWN = catalog.DEFAULT_MINOR


@pytest.mark.parametrize(
    ("minor", "super_minor", "title"),
    [
        (OWN, OWN, "tenant"),
        ("1.37", OWN, "tenant-1.37"),
        (OWN, "1.37", "tenant-on-1.37"),
        ("1.37", "1.37", "tenant-1.37-on-1.37"),
    ],
)
def test_each_pair_of_minors_has_results_of_its_own(minor: str, super_minor: str, title: str):
    assert sides.find("tenant", minor, super_minor).folder.name == title


def test_a_control_of_another_minor_than_the_super_cluster_is_refused():
    assert sides.find("control", "1.37", "1.37").minor == "1.37"
    with pytest.raises(TestbedError, match=f"of Kubernetes {OWN}"):
        sides.find("control", "1.37", OWN)
