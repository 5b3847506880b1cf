"""Files that are read again do not roll a pod, and all others do."""

import copy

import pytest
import yaml

from clusterversions import catalog
from tenancy import wellknown
from tests.support.vcmanager.factories import TENANT, bundled, wish
from vcmanager.pki import reloaded_files
from vcmanager.plan import control_plane, service_cidrs
from vcmanager.plan.service_cidrs import ServiceRange
from vcmanager.runtime import object_metadata

RANGE = ServiceRange(service_cidrs.ip_network("10.96.8.0/22"))

_SERVING, _ETCD_CLIENT = ("Secret", "apiserver-ca"), ("Secret", "apiserver-etcd-client")
_PROXY, _KUBELET = ("Secret", "front-proxy-ca"), ("Secret", "apiserver-kubelet-client")
_CONFIG, _KEYS = ("ConfigMap", "trust"), ("Secret", "serviceaccount-rsa")

ROWS = [
    ("etcd", ("Secret", "etcd-ca"), "tls.crt", False),
    ("etcd", ("Secret", "etcd-ca"), "tls.key", False),
    ("etcd", _CONFIG, "etcd.crt", True),
    ("etcd", _CONFIG, "client.crt", False),
    ("apiserver", _SERVING, "tls.crt", False),
    ("apiserver", _SERVING, "tls.key", False),
    ("apiserver", _ETCD_CLIENT, "tls.crt", False),
    ("apiserver", _PROXY, "tls.key", False),
    ("apiserver", _KUBELET, "tls.crt", False),
    ("apiserver", _KEYS, "tls.crt", True),
    ("apiserver", _KEYS, "tls.key", True),
    ("apiserver", _CONFIG, "client.crt", False),
    ("apiserver", _CONFIG, "front-proxy.crt", False),
    ("apiserver", _CONFIG, "etcd.crt", True),
    ("apiserver", _CONFIG, "agents.crt", True),
    ("apiserver", _CONFIG, "serving.crt", False),
    ("apiserver", ("ConfigMap", "apiserver-config"), "authentication.yaml", True),
    ("controller-manager", ("Secret", "client-authority"), "tls.crt", False),
    ("controller-manager", ("Secret", "client-authority"), "other.crt", False),
    ("controller-manager", _KEYS, "tls.key", True),
    ("controller-manager", _KEYS, "tls.crt", False),
    ("controller-manager", _CONFIG, "serving.crt", True),
    (
        "controller-manager",
        ("Secret", "controller-manager-kubeconfig"),
        "controller-manager-kubeconfig",
        True,
    ),
]


def contents(changed=None):
    """Return a digest per file. `changed` is one source and key."""
    keys = {
        "tls.crt",
        "tls.key",
        "other.crt",
        "etcd.crt",
        "client.crt",
        "serving.crt",
        "front-proxy.crt",
        "agents.crt",
        "authentication.yaml",
        "controller-manager-kubeconfig",
    }
    sources = {row[1] for row in ROWS}
    documents = {
        source: {"metadata": {"name": source[1]}, "data": dict.fromkeys(sorted(keys), "1")}
        for source in sources
    }
    for name in ("controller-manager-kubeconfig", "etcd-ca", "apiserver-config"):
        kind = "ConfigMap" if name == "apiserver-config" else "Secret"
        wanted = {row[2] for row in ROWS if row[1] == (kind, name)}
        documents[kind, name]["data"] = dict.fromkeys(sorted(wanted), "1")
    if changed is not None:
        documents[changed[0]]["data"][changed[1]] = "2"
    found = {}
    for (kind, _), document in documents.items():
        found |= object_metadata.digest_contents([document], kind)
    return found


def workloads(given=None):
    plan = control_plane.build_plan(given or wish(), RANGE)
    sets = (each for each in plan.workloads if each["kind"] == "StatefulSet")
    return {each["metadata"]["name"]: each for each in sets}


def digest(workload, of):
    made = object_metadata.add_metadata(workload, TENANT, of)
    return made["spec"]["template"]["metadata"]["annotations"][wellknown.SECRETS_DIGEST]


@pytest.mark.parametrize(("component", "source", "key", "rolls"), ROWS)
def test_only_a_file_that_is_read_once_rolls_its_pod(component, source, key, rolls):
    workload = workloads()[component]
    before, after = digest(workload, contents()), digest(workload, contents((source, key)))
    assert (before != after) == rolls


def test_each_flag_of_the_table_is_in_use():
    for component, flags in reloaded_files.RELOADED_FLAGS.items():
        words = workloads()[component]["spec"]["template"]["spec"]["containers"][0]["args"]
        assert flags <= {word.partition("=")[0] for word in words}


@pytest.mark.parametrize(
    "change",
    [
        lambda pod: pod["containers"][0]["volumeMounts"][1].update(subPath="tls.crt"),
        lambda pod: pod["containers"].append(
            {"name": "second", "volumeMounts": [pod["containers"][0]["volumeMounts"][1]]}
        ),
        lambda pod: pod["containers"][0].update(
            args=["sh", "-c", "etcd --cert-file=/etc/kubernetes/pki/etcd/tls.crt"]
        ),
        lambda pod: pod["containers"][0]["args"].append(
            "--other-file=/etc/kubernetes/pki/etcd/tls.crt"
        ),
        lambda pod: pod["containers"][0].update(args=[]),
    ],
    ids=["subPath", "second container", "shell", "unknown flag", "no flag"],
)
def test_a_use_that_is_not_understood_counts_as_read_once(change):
    pod = copy.deepcopy(workloads()["etcd"]["spec"]["template"]["spec"])
    assert reloaded_files.is_reloaded("etcd", pod, "certificates", "tls.crt")
    change(pod)
    assert not reloaded_files.is_reloaded("etcd", pod, "certificates", "tls.crt")


def test_the_value_of_a_flag_may_be_a_word_of_its_own():
    pod = copy.deepcopy(workloads()["etcd"]["spec"]["template"]["spec"])
    first = pod["containers"][0]
    first["args"] = [part for word in first["args"] for part in word.split("=", 1)]
    assert reloaded_files.is_reloaded("etcd", pod, "certificates", "tls.crt")


def test_upstream_bundles_keep_their_pods_when_a_serving_certificate_is_renewed():
    sample = yaml.safe_load(catalog.read_sample("upstream-shape"))
    workload = workloads(bundled(sample))["apiserver"]
    before = digest(workload, contents())
    assert digest(workload, contents((_SERVING, "tls.crt"))) == before
