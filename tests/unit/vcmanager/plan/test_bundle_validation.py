import copy
from ipaddress import ip_network

import pytest
import yaml

from clusterversions import catalog
from tenancy.specs import ComponentBundle, InvalidSpecError, parse_cluster_version
from tests.support.vcmanager.factories import bundled
from vcmanager.plan import bundle_validation, control_plane, upstream_bundles
from vcmanager.plan.service_cidrs import ServiceRange

SAMPLE = yaml.safe_load(catalog.read_sample("upstream-shape"))


def bundle(component: str) -> ComponentBundle:
    return control_plane.get_bundles(parse_cluster_version(SAMPLE))[component]


def broken(component: str, *path: object, value: object) -> ComponentBundle:
    """Return the sample's bundle with one thing put in place of another."""
    given = copy.deepcopy(bundle(component))
    at = {"statefulset": given.statefulset, "service": given.service}
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return given


FIRST = ("statefulset", "spec", "template", "spec", "containers", 0)
POD = ("statefulset", "spec", "template", "spec")


@pytest.mark.parametrize(
    ("component", "path", "value", "sentence"),
    [
        ("etcd", ("statefulset", "kind"), "Deployment", "apiVersion apps/v1 and kind StatefulSet"),
        ("etcd", ("statefulset", "apiVersion"), None, "apiVersion apps/v1"),
        ("etcd", ("statefulset", "metadata"), None, "etcd.statefulset.metadata.name is missing"),
        ("etcd", ("statefulset", "metadata", "name"), "x", "is 'x'. It must be etcd"),
        ("etcd", ("statefulset", "metadata", "labels"), "x", "labels is not an object"),
        (
            "etcd",
            ("statefulset", "spec"),
            "no object",
            "statefulset.spec is missing or not an object",
        ),
        ("etcd", ("statefulset", "spec", "template"), [], "spec.template is missing"),
        ("apiserver", (*POD, "containers"), [], "apiServer.*containers is empty"),
        ("apiserver", (*POD, "containers"), "x", "containers is empty"),
        ("apiserver", (*FIRST, "args"), "x", "args of the first container must be a list"),
        ("apiserver", (*FIRST, "args"), [1], "args of the first container must be a list"),
        ("apiserver", (*FIRST, "command"), {}, "command of the first container|has no"),
        ("apiserver", (*POD, "volumes"), {}, "volumes|has no"),
        ("apiserver", (*POD, "volumes"), ["x"], "must be lists of objects"),
        ("apiserver", (*POD, "volumes"), [{"name": "a", "secret": "x"}], "secret of volume a"),
        (
            "apiserver",
            (*POD, "volumes"),
            [{"name": "a", "projected": {"sources": ["x"]}}],
            "sources of volume a",
        ),
        ("apiserver", (*FIRST, "volumeMounts"), [{"name": "x"}], "must be lists of objects"),
        ("apiserver", ("statefulset", "spec", "replicas"), "1", "replicas is '1'"),
        ("apiserver", ("service", "kind"), "Ingress", "apiVersion v1 and kind Service"),
        ("apiserver", ("service", "spec"), None, "apiServer.service.spec is missing"),
        ("apiserver", ("service", "spec", "ports"), "x", "needs ports and a selector"),
        ("apiserver", ("service", "spec", "ports"), [], "needs ports and a selector"),
        ("apiserver", ("service", "spec", "ports"), [{}], r"ports\[0\]\.port is not a number"),
        (
            "apiserver",
            ("service", "spec", "ports"),
            [{"port": 1}, {"port": 2, "targetPort": []}],
            r"ports\[1\]\.targetPort is neither",
        ),
        (
            "apiserver",
            ("service", "metadata", "name"),
            "kubernetes",
            "is 'kubernetes', which vc-manager",
        ),
        (
            "etcd",
            ("service", "metadata", "name"),
            "kube-dns",
            "is 'kube-dns', which vc-manager uses for",
        ),
        ("etcd", ("service", "metadata", "name"), "metrics-server", "is 'metrics-server', which"),
        ("etcd", ("statefulset", "spec", "replicas"), 0, "replicas is 0, but a tenant needs etcd"),
        ("etcd", ("statefulset", "spec", "replicas"), True, "replicas is True"),
        ("apiserver", ("service", "spec", "selector"), None, "needs ports and a selector"),
    ],
)
def test_a_malformed_template_is_named(component, path, value, sentence):
    given = broken(component, *path, value=value)
    if value == {} and path[-1] in ("command", "volumes"):
        bundle_validation.check_bundle("mine", component, given)  # empty means the same as missing
        return
    with pytest.raises(InvalidSpecError, match=sentence) as caught:
        bundle_validation.check_bundle("mine", component, given)
    assert "ClusterVersion mine" in str(caught.value)
    assert upstream_bundles.BUNDLE_FIELDS[component] in str(caught.value)


def test_two_services_of_one_name_are_refused():
    given = {
        "etcd": bundle("etcd"),
        "apiserver": broken("apiserver", "service", "metadata", "name", value="etcd"),
    }
    sentence = "ClusterVersion mine: etcd and apiServer both have a service named 'etcd'"
    with pytest.raises(InvalidSpecError, match=sentence):
        bundle_validation.check_bundles_together("mine", given)
    bundle_validation.check_bundles_together("mine", {**given, "apiserver": bundle("apiserver")})


def test_a_plan_is_made_only_of_bundles_that_go_together():
    sample = copy.deepcopy(SAMPLE)
    sample["spec"]["apiServer"]["service"]["metadata"]["name"] = "etcd"
    with pytest.raises(InvalidSpecError, match="both have a service"):
        control_plane.build_plan(bundled(sample), ServiceRange(ip_network("10.96.8.0/22")))


def test_another_name_of_the_bundle_is_refused():
    given = ComponentBundle(metadata={"name": "database"}, statefulset={}, service={})
    with pytest.raises(InvalidSpecError, match="'database'\\. It must be etcd"):
        bundle_validation.check_bundle("mine", "etcd", given)


@pytest.mark.parametrize("component", ["etcd", "apiserver"])
def test_a_missing_service_is_named(component):
    given = ComponentBundle(statefulset=bundle(component).statefulset)
    with pytest.raises(InvalidSpecError, match="has no service\\. Add it"):
        bundle_validation.check_bundle("mine", component, given)


@pytest.mark.parametrize("component", ["etcd", "apiserver", "controller-manager"])
def test_the_sample_passes(component):
    bundle_validation.check_bundle("mine", component, bundle(component))
