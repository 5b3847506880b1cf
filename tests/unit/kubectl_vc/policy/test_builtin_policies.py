"""Built-in policies of the command line, compared with the chart."""

from pathlib import Path

import yaml

from kubectl_vc.policy.builtin_policies import BUILTIN_POLICIES
from tools.packages import ROOT


def test_policies_are_those_of_the_chart():
    values = yaml.safe_load((ROOT / Path("charts/virtual-cluster/values.yaml")).read_text())
    assert values["tenantPolicies"]["items"] == BUILTIN_POLICIES
