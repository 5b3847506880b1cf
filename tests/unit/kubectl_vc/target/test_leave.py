"""`kubectl vc target leave`: refused while tenants may run there."""

from __future__ import annotations

import pytest

from kubectl_vc.output.cli_errors import CliError
from kubectl_vc.target import drain, leave
from tests.support.kubectl_vc.super_clusters import cluster


def test_a_target_that_tenants_may_run_in_does_not_leave():
    nobody = drain.list_remaining("c2", [cluster("a", ["home"]), {"metadata": {}}])
    leave._check_not_in_use("c2", nobody)
    clusters = [cluster("a", ["home", "c2"]), cluster("b", status=["c2"]), cluster("c", ["c3"])]
    clusters[1]["status"]["targets"] = [{"name": "c2", "phase": "Draining", "pods": 1}]
    words = r"shop/a, shop/b \(Draining, 1 pod\) may run pods in c2"
    with pytest.raises(CliError, match=words):
        leave._check_not_in_use("c2", drain.list_remaining("c2", clusters))
