"""A tenant's pods: logs, exec, Services, DNS, tokens, environment, deletes both ways."""

import json
from typing import Any

import pytest

from tests.node.conftest import SuperClusterAdmin, TenantAdmin
from tests.support import node_objects
from tests.support.kubectl import until

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def space(tenant_a: TenantAdmin):
    """A namespace of this module's own, with one sleeping pod `main`."""
    name = "workloads"
    tenant_a.kubectl.run("create", "namespace", name)
    tenant_a.kubectl.apply(node_objects.sleeper("main", namespace=name))
    tenant_a.kubectl.run("-n", name, "wait", "--for=condition=Ready", "pod/main", "--timeout=90s")
    yield name
    tenant_a.kubectl.run("delete", "namespace", name, "--wait=true", timeout=120)


def in_pod(tenant: TenantAdmin, space: str, *words: str) -> str:
    return tenant.kubectl.run("-n", space, "exec", "main", "--", *words)


def test_logs_with_their_options(tenant_a: TenantAdmin, space: str):
    script = "for i in 1 2 3 4 5; do echo line $i; done"
    tenant_a.kubectl.apply(node_objects.job("lines", script, namespace=space))
    tenant_a.kubectl.run(
        "-n", space, "wait", "--for=condition=Complete", "job/lines", "--timeout=60s"
    )

    def logs(*options: str) -> list[str]:
        return tenant_a.kubectl.run("-n", space, "logs", "job/lines", *options).splitlines()

    assert logs() == [f"line {i}" for i in range(1, 6)]
    assert logs("--tail=2") == ["line 4", "line 5"]
    assert logs("-f") == [f"line {i}" for i in range(1, 6)]
    assert logs("--limit-bytes=6") == ["line 1"]
    assert logs("--since=1h") == [f"line {i}" for i in range(1, 6)]
    assert logs("--since-time=2100-01-01T00:00:00Z") == []
    assert logs("--timestamps")[0].endswith(" line 1")
    assert logs("--timestamps")[0].startswith("20")


def test_logs_of_the_previous_container(tenant_a: TenantAdmin, space: str):
    script = "if [ -e /once/done ]; then echo second; sleep 600; fi; echo first; touch /once/done"
    crasher = node_objects.pod("crasher", script, namespace=space)
    crasher["spec"]["containers"][0]["volumeMounts"] = [{"name": "once", "mountPath": "/once"}]
    crasher["spec"]["volumes"] = [{"name": "once", "emptyDir": {}}]
    tenant_a.kubectl.apply(crasher)
    until(
        lambda: "second" in tenant_a.kubectl.run("-n", space, "logs", "crasher"),
        "the second container's log",
    )
    assert "first" in tenant_a.kubectl.run("-n", space, "logs", "crasher", "--previous")


@pytest.mark.parametrize("code", [0, 1, 42, 137])
def test_exec_gives_the_exit_code(tenant_a: TenantAdmin, space: str, code: int):
    done = tenant_a.kubectl.call("-n", space, "exec", "main", "--", "sh", "-c", f"exit {code}")
    assert done.code == code


def test_exec_passes_stdin_and_keeps_the_outputs_apart(tenant_a: TenantAdmin, space: str):
    done = tenant_a.kubectl.call(
        *("-n", space, "exec", "-i", "main", "--", "sh", "-c", "cat; echo aside >&2"),
        stdin="through\n" * 1000,
    )
    assert (done.code, done.out, done.err) == (0, "through\n" * 1000, "aside\n")


def test_exec_with_a_terminal(tenant_a: TenantAdmin, space: str):
    command = (
        f"kubectl -n {space} exec -it main -- sh -c 'test -t 0 && test -t 1 && echo a terminal'"
    )
    done = tenant_a.kubectl.terminal(command)
    assert done.code == 0
    assert "a terminal" in done.out


def test_the_pod_sees_its_own_cluster(
    tenant_a: TenantAdmin, super_cluster: SuperClusterAdmin, space
):
    environment = dict(
        line.split("=", 1) for line in in_pod(tenant_a, space, "env").splitlines() if "=" in line
    )
    service = tenant_a.kubectl.get("service", "kubernetes", "-n", "default")
    assert environment["KUBERNETES_SERVICE_HOST"] == service["spec"]["clusterIP"]
    assert environment["KUBERNETES_SERVICE_PORT"] == "443"
    account = "/var/run/secrets/kubernetes.io/serviceaccount"
    assert in_pod(tenant_a, space, "cat", f"{account}/namespace") == space
    assert in_pod(tenant_a, space, "hostname").strip() == "main"
    root_ca = tenant_a.kubectl.get("configmap", "kube-root-ca.crt", "-n", space)
    assert in_pod(tenant_a, space, "cat", f"{account}/ca.crt") == root_ca["data"]["ca.crt"]
    everything = in_pod(
        tenant_a, space, "sh", "-c", "env; cat /etc/resolv.conf /etc/hosts /etc/hostname"
    )
    assert tenant_a.root not in everything


def test_a_service_has_the_same_address_on_both_sides_and_a_name(
    tenant_a: TenantAdmin, super_cluster: SuperClusterAdmin, space: str
):
    script = "mkdir /tmp/w; echo served > /tmp/w/index.html; exec httpd -f -p 8080 -h /tmp/w"
    server = node_objects.pod("server", script, namespace=space)
    server["spec"]["containers"][0]["readinessProbe"] = {
        "tcpSocket": {"port": 8080},
        "periodSeconds": 1,
    }
    tenant_a.kubectl.apply(server, node_objects.service("server", namespace=space))
    tenant_a.kubectl.run(
        "-n", space, "wait", "--for=condition=Ready", "pod/server", "--timeout=60s"
    )
    tenant_ip = tenant_a.kubectl.get("service", "server", "-n", space)["spec"]["clusterIP"]
    super_namespace = tenant_a.super_namespace(space)
    super_service = super_cluster.kubectl.get("service", "server", "-n", super_namespace)
    assert super_service["spec"]["clusterIP"] == tenant_ip
    name = f"server.{space}.svc.cluster.local"
    assert tenant_ip in in_pod(tenant_a, space, "nslookup", name)
    for host in (tenant_ip, "server", f"server.{space}", name):
        until(
            lambda host=host: "served" in in_pod(tenant_a, space, "wget", "-qO-", f"http://{host}"),
            f"an answer of http://{host}",
        )


def test_a_tenant_delete_reaches_the_super_cluster(
    tenant_a: TenantAdmin, super_cluster: SuperClusterAdmin, space: str
):
    tenant_a.kubectl.apply(node_objects.sleeper("short", namespace=space))
    tenant_a.kubectl.run("-n", space, "wait", "--for=condition=Ready", "pod/short", "--timeout=60s")
    tenant_a.kubectl.run("-n", space, "delete", "pod", "short", timeout=60)
    where = tenant_a.super_namespace(space)
    until(
        lambda: not super_cluster.kubectl.exists("pod", "short", "-n", where), "the super pod gone"
    )


def test_a_super_delete_reaches_the_tenant_and_the_owner_makes_a_new_pod(
    tenant_a: TenantAdmin, super_cluster: SuperClusterAdmin, space: str
):
    tenant_a.kubectl.apply(node_objects.deployment("kept", 1, namespace=space))
    tenant_a.kubectl.run("-n", space, "rollout", "status", "deployment/kept", "--timeout=60s")
    before = tenant_a.kubectl.names("pods", "-n", space, "-l", "app=kept")
    where = tenant_a.super_namespace(space)
    super_cluster.kubectl.run("-n", where, "delete", "pod", *before, timeout=60)
    until(
        lambda: set(tenant_a.kubectl.names("pods", "-n", space, "-l", "app=kept")) - set(before),
        "a new pod",
    )
    tenant_a.kubectl.run("-n", space, "rollout", "status", "deployment/kept", "--timeout=60s")
    until(
        lambda: (
            not set(tenant_a.kubectl.names("pods", "-n", space, "-l", "app=kept")) & set(before)
        ),
        "the old pod gone",
    )


@pytest.mark.thorough
def test_a_configmap_change_reaches_the_pod(tenant_a: TenantAdmin, space: str):
    """REL-81."""
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": space},
        "data": {"colour": "red"},
    }
    reader = node_objects.sleeper("reader", namespace=space)
    reader["spec"]["volumes"] = [{"name": "settings", "configMap": {"name": "settings"}}]
    reader["spec"]["containers"][0]["volumeMounts"] = [{"name": "settings", "mountPath": "/s"}]
    tenant_a.kubectl.apply(config, reader)
    tenant_a.kubectl.run(
        "-n", space, "wait", "--for=condition=Ready", "pod/reader", "--timeout=60s"
    )
    config["data"]["colour"] = "blue"
    tenant_a.kubectl.apply(config)
    until(
        lambda: (
            tenant_a.kubectl.run("-n", space, "exec", "reader", "--", "cat", "/s/colour") == "blue"
        ),
        "the new value in the pod",
        seconds=150,
    )


LOGS_OF_THE_NODE = {"name": "logs", "hostPath": {"path": "/var/log/pods"}}


@pytest.mark.parametrize(
    ("named", "forbidden"),
    [("hostNetwork", {"hostNetwork": True}), ("hostPath", {"volumes": [LOGS_OF_THE_NODE]})],
)
def test_a_forbidden_pod_is_refused_with_an_event_and_nothing_in_the_super_cluster(
    tenant_a: TenantAdmin,
    super_cluster: SuperClusterAdmin,
    space: str,
    named: str,
    forbidden: dict[str, Any],
):
    """SEC-21: the folder in which a link would be read as a log, and the node's network."""
    bad = node_objects.sleeper("bad", namespace=space)
    bad["spec"] |= forbidden
    tenant_a.kubectl.apply(bad)

    def refusals() -> list[str]:
        selector = "involvedObject.name=bad,reason=SyncRejected"
        found = tenant_a.kubectl.items("events", "-n", space, "--field-selector", selector)
        return [event["message"] for event in found]

    messages = until(refusals, "an event SyncRejected")
    assert any(named in message for message in messages), messages
    assert tenant_a.root not in json.dumps(messages)
    assert not super_cluster.kubectl.exists("pod", "bad", "-n", tenant_a.super_namespace(space))
    tenant_a.kubectl.run("-n", space, "delete", "pod", "bad", timeout=60)


def test_super_events_reach_the_tenant_without_super_names(tenant_a: TenantAdmin, space: str):
    broken = node_objects.sleeper("broken", namespace=space)
    broken["spec"]["containers"][0]["image"] = "nowhere/none:1"
    tenant_a.kubectl.apply(broken)

    def messages() -> list[str]:
        selector = "involvedObject.name=broken"
        found = tenant_a.kubectl.items("events", "-n", space, "--field-selector", selector)
        return [event["message"] for event in found if event["reason"] == "Failed"]

    until(lambda: any("nowhere/none:1" in each for each in messages()), "an event about the image")
    assert tenant_a.root not in json.dumps(messages())


def test_the_super_admin_finds_one_tenants_objects_by_label(
    tenant_a: TenantAdmin, super_cluster: SuperClusterAdmin, space: str
):
    selector = f"tenancy.x-k8s.io/vcname={tenant_a.name},tenancy.x-k8s.io/namespace={space}"
    assert "main" in super_cluster.kubectl.names("pods", "-A", "-l", selector)
    overview = super_cluster.kubectl.run("vc", "get", tenant_a.name)
    assert tenant_a.super_namespace(space) in overview
    assert "main" in overview
