"""The ClusterVersion of a VirtualCluster that names none."""

import pytest

from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.verbs.default_versions import choose_cluster_version
from tenancy import wellknown


def version(name: str, **annotations: str) -> dict:
    return {"metadata": {"name": name, "annotations": annotations}}


MARKED = {wellknown.DEFAULT_CLUSTER_VERSION: "true"}
UNMARKED = {wellknown.DEFAULT_CLUSTER_VERSION: "false"}


@pytest.mark.parametrize(
    ("found", "chosen"),
    [
        ([version("special")], "special"),
        ([version("v1.9"), version("v1.36"), version("v1.35"), version("v1.99-ha")], "v1.36"),
        ([version("v1.36"), version("ha", **MARKED)], "ha"),
        ([version("v1.36"), version("v1.35", **MARKED)], "v1.35"),
        (
            [version("v1.35"), version("v1.36", **UNMARKED)],
            "v1.36",
        ),
        ([{"metadata": {"name": "v1.36"}}, {"metadata": {"name": "x"}}], "v1.36"),
    ],
)
def test_the_default(found, chosen):
    assert choose_cluster_version(found) == chosen


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ([], "there is no ClusterVersion in the super cluster yet. Apply one first"),
        ([version("a"), version("b")], "Choose one of a, b with --cluster-version"),
        ([version("a", **MARKED), version("b", **MARKED)], "a, b are all marked as the default"),
    ],
)
def test_without_a_clear_choice_none_is_made(found, told):
    with pytest.raises(CliError, match=told):
        choose_cluster_version(found)
