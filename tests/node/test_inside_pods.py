"""The environment of a tenant's pod: names, addresses, variables, and its API server.

The same objects run straight on the super cluster as well, and what they find there is what a
tenant's pods should find.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest

from tests.node.conftest import SuperClusterAdmin, TenantAdmin
from tests.support.kubectl import KubectlRunner, until

pytestmark = [pytest.mark.thorough, pytest.mark.node, pytest.mark.timeout(600)]

SPACE = "inside"
DOMAIN = "cluster.local"
BANK = "192.0.2.7"
WHOLE = f"whole.single.{SPACE}.svc.{DOMAIN}"
NAMES = (
    "kubernetes.default.svc",
    "kubernetes.default",
    f"kubernetes.default.svc.{DOMAIN}",
    "web",
    f"web.{SPACE}",
    f"web.{SPACE}.svc",
    f"web.{SPACE}.svc.{DOMAIN}",
    "db",
    "db-0.db",
    f"db-1.db.{SPACE}",
    f"db-0.db.{SPACE}.svc.{DOMAIN}",
    "named.single",
    "bank.example.com",
    "nobody",
)
SCRIPT = """
import glob, json, os, socket, ssl, subprocess, sys, urllib.request

def addresses(name):
    try:
        return sorted({found[4][0] for found in socket.getaddrinfo(name, None, socket.AF_INET)})
    except socket.gaierror:
        return []

def read(path):
    with open(path) as file:
        return file.read()

account = "/var/run/secrets/kubernetes.io/serviceaccount/"

def api(path, body=None):
    context = ssl.create_default_context(cafile=account + "ca.crt")
    headers = {"Authorization": "Bearer " + read(account + "token"),
               "Content-Type": "application/json"}
    request = urllib.request.Request("https://kubernetes.default" + path, body, headers)
    with urllib.request.urlopen(request, context=context, timeout=20) as answer:
        return answer.status, json.load(answer)

whole = subprocess.run(["hostname", "-f"], capture_output=True, text=True).stdout.strip()
review = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
print(json.dumps({
    "resolved": {name: addresses(name) for name in [*sys.argv[1:], whole]},
    "hostname": socket.gethostname(),
    "whole name": whole,
    "hosts": read("/etc/hosts"),
    "resolv.conf": read("/etc/resolv.conf"),
    "environment": dict(os.environ),
    "files": {path: read(path) for path in glob.glob("/about/*")},
    "version": api("/version"),
    "who": api("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)[1]["status"],
    "reverse": [socket.gethostbyaddr(address)[0] for address in addresses("db-1.db")],
}))
"""


def _field(path: str) -> dict[str, Any]:
    return {"valueFrom": {"fieldRef": {"fieldPath": path}}}


def _template(app: str, **spec: Any) -> dict[str, Any]:
    """Return labels, annotations and spec of a pod that sleeps and knows about itself."""
    container = {
        "name": "main",
        "image": "python:3-slim",
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", "trap 'exit 0' TERM; sleep 2147483647 & wait"],
        "env": [
            {"name": "POD_NAME", **_field("metadata.name")},
            {"name": "POD_NAMESPACE", **_field("metadata.namespace")},
            {"name": "POD_UID", **_field("metadata.uid")},
            {"name": "POD_APP", **_field("metadata.labels['app']")},
            {"name": "POD_IP", **_field("status.podIP")},
            {"name": "NODE", **_field("spec.nodeName")},
            {"name": "ACCOUNT", **_field("spec.serviceAccountName")},
            {"name": "ADDRESS", "value": "$(WEB_SERVICE_HOST):$(WEB_SERVICE_PORT)"},
        ],
        "volumeMounts": [{"name": "about", "mountPath": "/about"}],
    }
    items = [
        {"path": name, "fieldRef": {"fieldPath": f"metadata.{name}"}}
        for name in ("name", "namespace", "uid", "labels", "annotations")
    ]
    return {
        "metadata": {
            "labels": {"app": app, "app.kubernetes.io/name": app},
            "annotations": {"example.com/note": 'a "word"'},
        },
        "spec": {
            "serviceAccountName": "runner",
            "terminationGracePeriodSeconds": 1,
            "hostAliases": [{"ip": BANK, "hostnames": ["bank.example.com", "bank"]}],
            "containers": [container],
            "volumes": [{"name": "about", "downwardAPI": {"items": items}}],
            **spec,
        },
    }


def _object(api: str, kind: str, name: str, namespace: str = SPACE, **body: Any) -> dict[str, Any]:
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        **body,
    }


def _pod(name: str, **spec: Any) -> dict[str, Any]:
    made = _object("v1", "Pod", name, **_template("single", **spec))
    made["metadata"].update(name=name, namespace=SPACE)
    return made


def _service(name: str, namespace: str = SPACE, **spec: Any) -> dict[str, Any]:
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    return _object("v1", "Service", name, namespace, spec={"ports": ports, **spec})


SERVICES = (
    _object("v1", "ServiceAccount", "runner"),
    _service("web", selector={"app": "single"}),
    _service("db", clusterIP="None", selector={"app.kubernetes.io/name": "db"}),
    _service("single", clusterIP="None", selector={"app": "single"}),
    _service("elsewhere", f"{SPACE}-2", selector={"app": "db"}),
)
PODS = (
    _object(
        "apps/v1",
        "StatefulSet",
        "db",
        spec={
            "serviceName": "db",
            "replicas": 2,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": "db"}},
            "template": _template("db"),
        },
    ),
    _pod(
        "picky",
        hostname="named",
        subdomain="single",
        dnsConfig={
            "nameservers": ["192.0.2.53"],
            "searches": ["example.com"],
            "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
        },
    ),
    _pod("whole", hostname="whole", subdomain="single", setHostnameAsFQDN=True),
    _pod("unlinked", enableServiceLinks=False),
)
NAMED = ("db-0", "db-1", "picky", "whole")
"""Pods that a headless Service gives a name."""
ALL = (*NAMED, "unlinked")


@dataclass(frozen=True)
class PodsOfCluster:
    """The pods of one cluster, as it shows them, and what each finds inside."""

    kubectl: KubectlRunner
    pods: dict[str, dict[str, Any]]
    inside: dict[str, dict[str, Any]]
    whole: dict[str, list[str]]
    """To what the whole name of each pod resolves in another pod."""

    def address(self, pod: str) -> str:
        """Return the address of a pod."""
        return str(self.pods[pod]["status"]["podIP"])

    def service(self, name: str, namespace: str = SPACE) -> str:
        """Return the address of a Service."""
        return str(self.kubectl.get("service", name, "-n", namespace)["spec"]["clusterIP"])


def run(kubectl: KubectlRunner) -> PodsOfCluster:
    """Run everything in one cluster and look into each pod."""
    for namespace in (SPACE, f"{SPACE}-2"):
        kubectl.run("create", "namespace", namespace)
    kubectl.apply(*SERVICES)  # before the pods, as their variables are set at the start
    until(
        lambda: kubectl.exists("serviceaccount", "runner", "-n", SPACE), "the account of the pods"
    )
    kubectl.apply(*PODS)
    kubectl.run("-n", SPACE, "rollout", "status", "statefulset/db", "--timeout=90s")
    kubectl.run("-n", SPACE, "wait", "--for=condition=Ready", "pod", "--all", "--timeout=90s")

    def look(pod: str, *names: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            kubectl.run("-n", SPACE, "exec", pod, "--", "python3", "-c", SCRIPT, *names)
        )
        return found

    def resolved() -> bool:  # a DNS server learns of new pods a moment later
        found = look("db-0", *NAMES, WHOLE)["resolved"]
        return len(found["db"]) == 2 and bool(found["named.single"]) and bool(found[WHOLE])

    until(resolved, "the names of the pods")
    pods = {pod["metadata"]["name"]: pod for pod in kubectl.items("pods", "-n", SPACE)}
    inside = {pod: look(pod, *(NAMES if pod == "db-0" else ())) for pod in ALL}
    # In the pod itself the hosts file answers.
    names = {pod: inside[pod]["whole name"] for pod in NAMED}
    resolved_elsewhere = look("unlinked", *names.values())["resolved"]
    whole = {pod: resolved_elsewhere[name] for pod, name in names.items()}
    return PodsOfCluster(kubectl, pods, inside, whole)


def clean(kubectl: KubectlRunner) -> None:
    kubectl.run("delete", "namespace", SPACE, f"{SPACE}-2", "--wait=true", timeout=120)


@pytest.fixture(scope="module")
def straight(super_cluster: SuperClusterAdmin):
    yield run(super_cluster.kubectl)
    clean(super_cluster.kubectl)


@pytest.fixture(scope="module")
def tenant(tenant_a: TenantAdmin):
    yield run(tenant_a.kubectl)
    clean(tenant_a.kubectl)


def test_the_dns_server_is_the_one_of_any_cluster(
    super_cluster: SuperClusterAdmin, tenant_a: TenantAdmin
):
    def image(namespace: str) -> str:
        deployment = super_cluster.kubectl.get("deployment", "coredns", "-n", namespace)
        return str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])

    assert image(tenant_a.root) == image("kube-system")


@pytest.mark.parametrize("name", NAMES)
def test_a_name_resolves_to_what_the_tenant_shows(tenant: PodsOfCluster, name: str):
    first = name.partition(".")[0]
    wanted = {
        "kubernetes": [tenant.service("kubernetes", "default")],
        "web": [tenant.service("web")],
        "db": sorted([tenant.address("db-0"), tenant.address("db-1")]),
        "db-0": [tenant.address("db-0")],
        "db-1": [tenant.address("db-1")],
        "named": [tenant.address("picky")],
        "bank": [BANK],
        "nobody": [],
    }
    assert tenant.inside["db-0"]["resolved"][name] == wanted[first]


@pytest.mark.parametrize("pod", ALL)
def test_the_api_answers_under_its_name_with_the_mounted_authority_and_token(
    tenant: PodsOfCluster, pod: str
):
    status, version = tenant.inside[pod]["version"]
    assert status == 200
    said = json.loads(tenant.kubectl.run("version", "-o", "json"))["serverVersion"]
    assert version["gitVersion"] == said["gitVersion"]
    who = tenant.inside[pod]["who"]["userInfo"]
    assert who["username"] == f"system:serviceaccount:{SPACE}:runner"
    account = tenant.kubectl.get("serviceaccount", "runner", "-n", SPACE)
    assert who["uid"] == account["metadata"]["uid"]


@pytest.mark.parametrize("pod", NAMED)
def test_what_hostname_prints_is_a_name_of_the_pod(
    tenant: PodsOfCluster, straight: PodsOfCluster, pod: str
):
    found, there = tenant.inside[pod]["whole name"], straight.inside[pod]["whole name"]
    assert found.split(".")[:2] == there.split(".")[:2]
    assert found.endswith(f"{SPACE}.svc.{DOMAIN}")
    assert tenant.whole[pod] == [tenant.address(pod)]


def test_a_pod_may_have_its_whole_name_as_host_name(tenant: PodsOfCluster):
    assert tenant.inside["whole"]["hostname"] == tenant.inside["whole"]["whole name"] == WHOLE


def test_an_address_leads_back_to_the_tenants_name(tenant: PodsOfCluster):
    assert tenant.inside["db-0"]["reverse"] == [f"db-1.db.{SPACE}.svc.{DOMAIN}"]


def test_host_aliases_are_in_the_hosts_file(tenant: PodsOfCluster):
    lines = [line.split() for line in tenant.inside["db-0"]["hosts"].splitlines()]
    assert [BANK, "bank.example.com", "bank"] in lines


def resolver_lines(found: dict[str, Any]) -> list[str]:
    """Return the lines of a pod's resolv.conf. A kubelet writes its options in any order."""
    options = "options "
    return [
        options + " ".join(sorted(line.split()[1:])) if line.startswith(options) else line
        for line in found["resolv.conf"].splitlines()
    ]


def test_the_resolver_is_the_tenants_with_what_the_pod_adds(tenant: PodsOfCluster):
    dns = tenant.service("kube-dns", "kube-system")
    searches = f"search {SPACE}.svc.{DOMAIN} svc.{DOMAIN} {DOMAIN}"
    assert set(resolver_lines(tenant.inside["db-0"])) == {
        f"nameserver {dns}",
        searches,
        "options ndots:5",
    }
    assert set(resolver_lines(tenant.inside["picky"])) == {
        f"nameserver {dns}",
        "nameserver 192.0.2.53",
        f"{searches} example.com",
        "options edns0 ndots:2",
    }


def test_service_variables_are_those_of_the_pods_own_namespace(tenant: PodsOfCluster):
    web, api = tenant.service("web"), tenant.service("kubernetes", "default")
    links = {
        "WEB_SERVICE_HOST": web,
        "WEB_SERVICE_PORT": "80",
        "WEB_SERVICE_PORT_HTTP": "80",
        "WEB_PORT": f"tcp://{web}:80",
        "WEB_PORT_80_TCP": f"tcp://{web}:80",
        "WEB_PORT_80_TCP_ADDR": web,
        "WEB_PORT_80_TCP_PORT": "80",
        "WEB_PORT_80_TCP_PROTO": "tcp",
    }
    always = {"KUBERNETES_SERVICE_HOST": api, "KUBERNETES_PORT": f"tcp://{api}:443"}
    linked = tenant.inside["db-0"]["environment"]
    assert {**linked, **links, **always, "ADDRESS": f"{web}:80"} == linked
    unlinked = tenant.inside["unlinked"]["environment"]
    assert {**unlinked, **always} == unlinked
    assert not links.keys() & unlinked.keys()
    for found in (linked, unlinked):
        assert not [name for name in found if re.match("ELSEWHERE|DB_|KUBE_DNS", name)]


@pytest.mark.parametrize("pod", ALL)
def test_a_pod_is_informed_about_itself_as_the_tenant_knows_it(tenant: PodsOfCluster, pod: str):
    shown, found = tenant.pods[pod], tenant.inside[pod]
    metadata = shown["metadata"]
    environment = found["environment"]
    assert {
        "POD_NAME": pod,
        "POD_NAMESPACE": SPACE,
        "POD_UID": metadata["uid"],
        "POD_APP": metadata["labels"]["app"],
        "POD_IP": shown["status"]["podIP"],
        "NODE": shown["spec"]["nodeName"],
        "ACCOUNT": "runner",
    }.items() <= environment.items()
    assert found["files"]["/about/name"] == pod
    assert found["files"]["/about/namespace"] == SPACE
    assert found["files"]["/about/uid"] == metadata["uid"]
    assert _pairs(found["files"]["/about/labels"]) == metadata["labels"]
    written = _pairs(found["files"]["/about/annotations"])
    assert written["example.com/note"] == 'a "word"'
    assert {key: metadata["annotations"].get(key) for key in written} == written


def _pairs(text: str) -> dict[str, str]:
    """Return what a downward API file says."""
    pairs = (line.split("=", 1) for line in text.splitlines())
    return {key: json.loads(value) for key, value in pairs}


@pytest.mark.parametrize("pod", ALL)
def test_a_pod_finds_what_it_finds_straight_on_the_super_cluster(
    tenant: PodsOfCluster, straight: PodsOfCluster, pod: str
):
    assert plain(tenant, pod) == plain(straight, pod)


def plain(place: PodsOfCluster, pod: str) -> Any:
    """Return what a pod finds, with addresses and identities as what they stand for.

    The whole name is left out, and what leads to it: the node knows the super namespace, and the
    name resolves all the same.
    """
    found = place.inside[pod]
    stands_for = {
        place.service("kubernetes", "default"): "(api)",
        place.service("kube-dns", "kube-system"): "(dns)",
        place.service("web"): "(web)",
        **{place.address(name): f"({name})" for name in ALL},
        **{each["metadata"]["uid"]: "(uid)" for each in place.pods.values()},
    }
    known = re.compile("|".join(rf"\b{re.escape(text)}\b" for text in stands_for))

    def cleaned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: cleaned(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return sorted(cleaned(inner) for inner in value)
        return known.sub(lambda match: stands_for[match[0]], value)

    return cleaned(
        {
            "resolved": {name: found["resolved"].get(name, []) for name in NAMES},
            "hostname": found["hostname"],
            "aliases": [line for line in found["hosts"].splitlines() if BANK in line],
            "resolv.conf": resolver_lines(found),
            "environment": found["environment"],
            "files": {
                path: [line for line in text.splitlines() if not _KUBELETS.match(line)]
                for path, text in found["files"].items()
            },
            "user": found["who"]["userInfo"]["username"],
            "groups": found["who"]["userInfo"]["groups"],
            "reverse": found["reverse"] if pod != "db-1" else [],
        }
    )


_KUBELETS = re.compile(r"kubernetes\.io/config\.(seen|source)=")
"""What a kubelet adds to the annotations of a pod that it runs, and shows in its files only."""
