"""The life of a certificate that a tenant signs, from the flags of its controller manager."""

from datetime import timedelta

import pytest
import yaml

from clusterversions import catalog
from tenancy.specs import ClusterVersionSpec, ExtraArgs
from tests.support.vcmanager.factories import bundled, wish
from vcmanager.pki import signed_lifetime
from vcmanager.plan import control_plane, service_cidrs
from vcmanager.plan.service_cidrs import ServiceRange


def plan(*args, name="controller-manager", kind="StatefulSet"):
    pod_spec = {"containers": [{"command": ["kube-controller-manager"], "args": list(args)}]}
    return [
        {
            "kind": kind,
            "metadata": {"name": name},
            "spec": {"template": {"spec": pod_spec}},
        }
    ]


@pytest.mark.parametrize(
    ("args", "hours"),
    [
        (("--cluster-signing-duration=2160h",), 2160),
        (("--cluster-signing-duration", "2160h0m0s"), 2160),
        (("--cluster-signing-duration=1h", "--v=2", "--cluster-signing-duration=90m"), 1.5),
        (("--cluster-signing-duration=8760h0m0.5s",), 8760 + 0.5 / 3600),
        (("--v=2",), 8760),
        (("--cluster-signing-duration=90d",), 8760),
        (("--cluster-signing-duration=",), 8760),
        (("--cluster-signing-duration=0s",), 8760),
    ],
)
def test_the_last_flag_applies_and_the_default_is_a_year(args, hours):
    assert signed_lifetime.compute_signed_lifetime(plan(*args)) == timedelta(hours=hours)


def test_without_a_controller_manager_nothing_is_signed():
    for workloads in ([], plan(name="apiserver"), plan(kind="Deployment")):
        assert signed_lifetime.compute_signed_lifetime(workloads) == timedelta(0)


LONG = ClusterVersionSpec(
    kubernetes_version="1.36",
    extra_args=ExtraArgs(controller_manager={"cluster-signing-duration": "43800h"}),
)


@pytest.mark.parametrize(
    ("planned", "hours"),
    [
        (wish(), 2160),
        (wish(version=LONG), 43800),
        (bundled(yaml.safe_load(catalog.read_sample("upstream-shape"))), 2160),
    ],
    ids=["short-form", "extra-args", "bundles"],
)
def test_the_flag_of_a_plan_is_found(planned, hours):
    made = control_plane.build_plan(planned, ServiceRange(service_cidrs.ip_network("10.96.8.0/22")))
    found = signed_lifetime.compute_signed_lifetime(made.workloads)
    assert found == timedelta(hours=hours)
