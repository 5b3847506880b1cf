import copy

import pytest
import yaml

from clusterversions import catalog
from tenancy.specs import ComponentBundle, parse_cluster_version
from vcmanager.plan import control_plane, upstream_bundles

SAMPLE = yaml.safe_load(catalog.read_sample("upstream-shape"))
ADDITIONS = upstream_bundles.BundleAdditions(
    service_cidr="10.96.8.0/22",
    node_ports="30000-32767",
    kubelet_addresses=upstream_bundles.KUBELET_ADDRESSES,
)


def bundle(component: str) -> ComponentBundle:
    return control_plane.get_bundles(parse_cluster_version(SAMPLE))[component]


def completed(component: str, given: ComponentBundle | None = None):
    made = upstream_bundles.complete_bundle(component, given or bundle(component), ADDITIONS)
    return next(each for each in made if each["kind"] == "StatefulSet")


def arguments(stateful_set) -> list[str]:
    return stateful_set["spec"]["template"]["spec"]["containers"][0]["args"]


def last(flag: str, words: list[str]) -> str:
    return [word.partition("=")[2] for word in words if word.startswith(f"{flag}=")][-1]


@pytest.mark.parametrize("component", ["etcd", "apiserver", "controller-manager"])
def test_a_template_is_only_added_to(component):
    given = bundle(component).statefulset
    made = completed(component)
    before = copy.deepcopy(given)
    first = made["spec"]["template"]["spec"]["containers"][0]
    own = before["spec"]["template"]["spec"]["containers"][0]
    assert first["args"][: len(own["args"])] == own["args"]
    assert first["volumeMounts"][: len(own["volumeMounts"])] == own["volumeMounts"]
    own["args"], own["volumeMounts"] = first["args"], first["volumeMounts"]
    before["spec"]["template"]["spec"]["automountServiceAccountToken"] = False
    added = len(made["spec"]["template"]["spec"]["volumes"]) - len(
        before["spec"]["template"]["spec"]["volumes"]
    )
    assert added == (0 if component == "etcd" else 1)
    for volume in before["spec"]["template"]["spec"]["volumes"]:
        if volume["name"] == "root-ca":
            volume["secret"]["secretName"] = f"root-ca-{component}"
    before["spec"]["template"]["spec"]["volumes"] += made["spec"]["template"]["spec"]["volumes"][
        -added or len(made["spec"]["template"]["spec"]["volumes"]) :
    ]
    assert made == before


def test_the_given_object_is_not_changed():
    given = bundle("apiserver")
    before = copy.deepcopy(given.statefulset)
    upstream_bundles.complete_bundle("apiserver", given, ADDITIONS)
    assert given.statefulset == before


def test_the_api_server_gets_ranges_and_a_way_to_agents():
    words = arguments(completed("apiserver"))
    assert last("--service-cluster-ip-range", words) == "10.96.8.0/22"
    assert last("--service-node-port-range", words) == "30000-32767"
    assert last("--kubelet-client-certificate", words).startswith(upstream_bundles.MANAGER_FOLDER)
    assert (
        last("--kubelet-certificate-authority", words)
        == f"{upstream_bundles.MANAGER_FOLDER}/trust/agents.crt"
    )
    assert last("--kubelet-preferred-address-types", words) == "tenancy.x-k8s.io/agent,InternalIP"


def test_each_flag_names_the_authority_it_means():
    words = arguments(completed("apiserver"))
    assert last("--client-ca-file", words) == "/etc/kubernetes/pki/root/tls.crt"
    assert last("--etcd-cafile", words) == f"{upstream_bundles.MANAGER_FOLDER}/trust/etcd.crt"
    assert last("--etcd-certfile", words) == f"{upstream_bundles.MANAGER_FOLDER}/etcd/tls.crt"
    assert last("--etcd-keyfile", words) == f"{upstream_bundles.MANAGER_FOLDER}/etcd/tls.key"
    assert (
        last("--requestheader-client-ca-file", words)
        == f"{upstream_bundles.MANAGER_FOLDER}/trust/front-proxy.crt"
    )
    controller_manager = arguments(completed("controller-manager"))
    assert (
        last("--root-ca-file", controller_manager)
        == f"{upstream_bundles.MANAGER_FOLDER}/trust/serving.crt"
    )
    assert (
        last("--cluster-signing-cert-file", controller_manager)
        == "/etc/kubernetes/pki/root/tls.crt"
    )


def test_a_flag_with_a_file_of_the_templates_own_is_left_alone():
    given = copy.deepcopy(bundle("apiserver"))
    first = given.statefulset["spec"]["template"]["spec"]["containers"][0]
    first["args"] = ["--etcd-cafile=/mine/ca.crt", "--etcd-certfile", "/mine/tls.crt"]
    words = arguments(completed("apiserver", given))
    assert last("--etcd-cafile", words) == "/mine/ca.crt"
    assert not any(word.startswith("--etcd-certfile=") for word in words)


def test_a_flag_written_as_two_words_is_understood():
    given = copy.deepcopy(bundle("apiserver"))
    first = given.statefulset["spec"]["template"]["spec"]["containers"][0]
    first["args"] = []
    first["command"] = ["kube-apiserver", "--etcd-cafile", "/etc/kubernetes/pki/root/tls.crt"]
    assert last("--etcd-cafile", arguments(completed("apiserver", given))).startswith(
        upstream_bundles.MANAGER_FOLDER
    )


def test_a_flag_that_adds_up_is_replaced():
    given = copy.deepcopy(bundle("apiserver"))
    first = given.statefulset["spec"]["template"]["spec"]["containers"][0]
    first["args"].append("--kubelet-preferred-address-types=Hostname")
    words = arguments(completed("apiserver", given))
    assert [w for w in words if w.startswith("--kubelet-preferred")] == [
        "--kubelet-preferred-address-types=tenancy.x-k8s.io/agent,InternalIP"
    ]


FLAG = "--kubelet-preferred-address-types"


@pytest.mark.parametrize("field", ["args", "command"])
@pytest.mark.parametrize("words", [[f"{FLAG}=Hostname"], [FLAG, "Hostname"]])
def test_a_flag_that_adds_up_goes_however_it_is_written(field, words):
    given = copy.deepcopy(bundle("apiserver"))
    first = given.statefulset["spec"]["template"]["spec"]["containers"][0]
    first[field] = ["before", *words, "--after", "word"]
    made = completed("apiserver", given)["spec"]["template"]["spec"]["containers"][0]
    assert made[field][:3] == ["before", "--after", "word"]
    assert "Hostname" not in str(made)
    assert sum(word.startswith(FLAG) for word in [*made["command"], *made["args"]]) == 1


@pytest.mark.parametrize("replicas", [1, 3])
def test_the_store_knows_its_members(replicas):
    given = copy.deepcopy(bundle("etcd"))
    given.statefulset["spec"]["replicas"] = replicas
    members = last("--initial-cluster", arguments(completed("etcd", given))).split(",")
    assert members == [f"etcd-{n}=https://etcd-{n}.etcd:2380" for n in range(replicas)]


def test_golden_vector_of_three_members():
    assert upstream_bundles.build_initial_cluster("etcd", "etcd", 3) == (
        "etcd-0=https://etcd-0.etcd:2380,etcd-1=https://etcd-1.etcd:2380,"
        "etcd-2=https://etcd-2.etcd:2380"
    )


def test_a_store_without_a_volume_is_ephemeral():
    given = bundle("etcd").statefulset
    assert upstream_bundles.is_ephemeral(given)
    template = copy.deepcopy(given)
    template["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}}]
    assert not upstream_bundles.is_ephemeral(template)
    claimed = copy.deepcopy(given)
    claimed["spec"]["template"]["spec"]["volumes"].append({"persistentVolumeClaim": {}})
    assert not upstream_bundles.is_ephemeral(claimed)
    empty = copy.deepcopy(given)
    empty["spec"]["template"]["spec"]["volumes"].append({"emptyDir": {}})
    assert upstream_bundles.is_ephemeral(empty)


def test_a_projected_root_is_pointed_at_its_own_secret_too():
    given = copy.deepcopy(bundle("apiserver"))
    given.statefulset["spec"]["template"]["spec"]["volumes"].append(
        {"name": "p", "projected": {"sources": [{"secret": {"name": "root-ca"}}]}}
    )
    volumes = completed("apiserver", given)["spec"]["template"]["spec"]["volumes"]
    projected = next(volume for volume in volumes if volume["name"] == "p")
    assert projected["projected"]["sources"] == [{"secret": {"name": "root-ca-apiserver"}}]
