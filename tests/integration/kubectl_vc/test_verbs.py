"""The verbs beside `create`, on objects of a real API server."""

import asyncio
import json
import os
import signal
import stat
from datetime import UTC, datetime, timedelta

import yaml

from kubeio.api import event_recorder
from kubeio.api.client import Client
from tenancy import deletion, ownership, wellknown
from tenancy.resources import (
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    VIRTUAL_CLUSTERS,
)
from tests.integration.kubectl_vc.conftest import VERSION, UserTerminal
from tests.support.eventually import eventually
from tests.support.names import fresh_name
from tools.testbed.artifacts import binaries

WELL = ("True", "Ready", "all is well")
HELD = {"metadata": {"finalizers": [wellknown.FINALIZER]}}
FREE = {"metadata": {"finalizers": None}}


async def is_going(desk: UserTerminal) -> bool:
    """Return whether the VirtualCluster is being deleted."""
    return "deletionTimestamp" in (await desk.fetch())["metadata"]


async def test_lists_report_when_there_is_nothing(desk: UserTerminal):
    done = await desk.run("list", "-n", desk.namespace)
    assert (done.code, done.out) == (0, "")
    assert done.err == f"No VirtualClusters found in {desk.namespace} namespace.\n"


async def test_lists_have_every_format_that_kubectl_has(desk: UserTerminal):
    await desk.make("one")
    await desk.make("two")
    await desk.report("one", Ready=WELL)
    for verb in ("list", "get"):
        table = (await desk.run(verb, "-n", desk.namespace)).out.splitlines()
        assert table[0].split() == [
            *("NAME", "PHASE", "READY", "SYNCED", "POLICY", "VERSION", "ENDPOINT", "AGE"),
        ]
        assert [line.split()[:3] for line in table[1:]] == [
            *(["one", "Pending", "True"], ["two", "Pending", "Unknown"]),
        ]
    wide = (await desk.run("list", "-A", "-o", "wide")).out.splitlines()
    assert wide[0].split()[0] == "NAMESPACE"
    assert any(line.split()[:2] == [desk.namespace, "one"] for line in wide)
    names = (await desk.run("list", "-n", desk.namespace, "-o", "name")).out
    assert names == (
        "virtualcluster.tenancy.x-k8s.io/one\nvirtualcluster.tenancy.x-k8s.io/two\n"
    )  # fmt: skip
    as_json = json.loads((await desk.run("list", "-n", desk.namespace, "-o", "json")).out)
    as_yaml = yaml.safe_load((await desk.run("list", "-n", desk.namespace, "-o", "yaml")).out)
    assert as_json == as_yaml
    assert [each["kind"] for each in as_json["items"]] == ["VirtualCluster"] * 2


async def test_the_context_names_the_namespace(desk: UserTerminal):
    await desk.make()
    document = yaml.safe_load((desk.folder / "super").read_text())
    document["contexts"][0]["context"]["namespace"] = desk.namespace
    (desk.folder / "super").write_text(yaml.safe_dump(document))
    done = await desk.run("list", "-o", "name")
    assert done.out == "virtualcluster.tenancy.x-k8s.io/web\n"


async def test_one_object_alone_in_each_format(desk: UserTerminal):
    await desk.make()
    where = ("get", "web", "-n", desk.namespace)
    assert json.loads((await desk.run(*where, "-o", "json")).out)["kind"] == "VirtualCluster"
    assert yaml.safe_load((await desk.run(*where, "-o", "yaml")).out)["metadata"]["name"] == "web"
    assert (await desk.run(*where, "-o", "name")).out == "virtualcluster.tenancy.x-k8s.io/web\n"


async def test_the_super_admin_sees_what_a_tenant_has_and_nothing_of_others(desk: UserTerminal):
    """Pods of both kinds: those of the control plane, and the tenant's own."""
    body = await desk.make()
    other = await desk.make("other")
    node = fresh_name("node")
    await desk.client.create(
        NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}
    )
    spaces = {}
    for each in (body, other):
        tenant = ownership.Tenant(
            name=each["metadata"]["name"],
            namespace=desk.namespace,
            uid=each["metadata"]["uid"],
            root=fresh_name("root"),
        )
        for namespace in ("", "shop"):
            name = f"{tenant.root}-{namespace}" if namespace else tenant.root
            metadata = {"name": name, "labels": ownership.build_owner_labels(tenant, namespace)}
            if namespace:
                metadata["annotations"] = ownership.build_owner_annotations(tenant, namespace, "u")
            space = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
            await desk.client.create(NAMESPACES, space)
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"{tenant.name}-pod", "namespace": name},
                "spec": {"nodeName": node, "containers": [{"name": "a", "image": "a"}]},
            }
            await desk.client.create(PODS, pod)
            spaces[tenant.name, namespace] = name
    await desk.report(Ready=WELL)
    done = await desk.run("get", "web", "-n", desk.namespace)
    assert (done.code, done.err) == (0, "")
    rows = [line.split() for line in done.out.splitlines()]
    assert ["Ready", "True", "Ready"] in [row[:3] for row in rows]
    assert [spaces["web", ""], "(control", "plane)"] in [row[:3] for row in rows]
    assert [spaces["web", "shop"], "shop"] in [row[:2] for row in rows]
    assert ["web-pod", spaces["web", "shop"], "shop", "0/1"] in [row[:4] for row in rows]
    assert [node, "Unknown", "2"] in rows
    assert "other" not in done.out


async def allow(desk: UserTerminal, user: str, *verbs: str) -> None:
    """Let someone do something with the VirtualClusters of the namespace, and nothing else."""
    rbac = "rbac.authorization.k8s.io"
    body = {"apiVersion": f"{rbac}/v1", "metadata": {"name": user, "namespace": desk.namespace}}
    rule = {"apiGroups": ["tenancy.x-k8s.io"], "resources": ["virtualclusters"], "verbs": verbs}
    await desk.client.create(ROLES, {**body, "kind": "Role", "rules": [rule]})
    grant = {
        "roleRef": {"apiGroup": rbac, "kind": "Role", "name": user},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": user}],
    }
    await desk.client.create(ROLE_BINDINGS, {**body, "kind": "RoleBinding", **grant})
    async with Client(desk.plane.endpoint_for(user)) as theirs:
        await eventually(lambda: theirs.get(VIRTUAL_CLUSTERS, "web", namespace=desk.namespace))
    desk.become(user)


async def test_who_may_not_see_the_super_side_sees_the_rest(desk: UserTerminal):
    await desk.make()
    await desk.report(Ready=WELL)
    await allow(desk, "joe", "get")
    done = await desk.run("get", "web", "-n", desk.namespace)
    assert done.code == 0
    assert "all is well" in done.out
    assert done.err.startswith(
        "Objects in the super cluster are not shown: you (joe) may not list namespaces"
    )


async def test_who_may_not_watch_waits_all_the_same(desk: UserTerminal):
    await desk.make()
    await desk.client.patch(VIRTUAL_CLUSTERS, "web", HELD, namespace=desk.namespace)
    await allow(desk, "joe", "get", "delete")
    running = await desk.start("delete", "web", "-n", desk.namespace)
    await eventually(lambda: is_going(desk), within=20)
    await desk.client.patch(VIRTUAL_CLUSTERS, "web", FREE, namespace=desk.namespace)
    done = await running.end()
    assert (done.code, done.out) == (0, "virtualcluster.tenancy.x-k8s.io/web deleted\n"), done


async def test_one_that_is_not_there_is_an_error(desk: UserTerminal):
    verbs = ("get", "kubeconfig", "delete", "confirm-deletes", "describe", "events", "logs")
    for verb in verbs:
        done = await desk.run(verb, "nope", "-n", desk.namespace)
        assert (done.code, done.out) == (3, "")
        assert f"VirtualCluster {desk.namespace}/nope was not found" in done.err


async def test_a_kubeconfig_is_printed_or_written_privately(desk: UserTerminal):
    await desk.make()
    content = await desk.hand_out()
    where = ("kubeconfig", "web", "-n", desk.namespace)
    assert (await desk.run(*where)).out.strip() == content.decode().strip()
    assert (await desk.run(*where, "-o", "kc")).code == 0
    path = desk.folder / "kc"
    assert path.read_bytes() == content
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = await desk.run(*where, "-o", "kc")
    assert (again.code, "kc exists already" in again.err) == (1, True)
    path.write_text("old")
    assert (await desk.run(*where, "-o", "kc", "--force")).code == 0
    assert path.read_bytes() == content


async def test_a_kubeconfig_that_is_not_there_yet_reports_what_it_waits_for(desk: UserTerminal):
    await desk.make()
    await desk.report(EtcdReady=("False", "Unschedulable", "no node has room"))
    done = await desk.run("kubeconfig", "web", "-n", desk.namespace)
    assert done.code == 1
    assert "no kubeconfig yet, because it waits for etcd: Unschedulable: no node" in done.err


async def test_a_kubeconfig_that_trusts_anybody_is_not_handed_out(desk: UserTerminal):
    await desk.make()
    loose = yaml.safe_load(desk.plane.kubeconfig())
    del loose["clusters"][0]["cluster"]["certificate-authority-data"]
    loose["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True
    await desk.hand_out(content=yaml.safe_dump(loose).encode())
    done = await desk.run("kubeconfig", "web", "-n", desk.namespace, "-o", "kc")
    assert (done.code, done.out) == (1, "")
    assert "cannot be used safely" in done.err
    assert "insecure-skip-tls-verify" in done.err
    assert not (desk.folder / "kc").exists()


async def test_deletion_waits_until_nothing_is_left(desk: UserTerminal):
    await desk.make()
    await desk.client.patch(VIRTUAL_CLUSTERS, "web", HELD, namespace=desk.namespace)
    running = await desk.start("delete", "web", "-n", desk.namespace)

    await eventually(lambda: is_going(desk), within=20)
    await asyncio.sleep(0.5)
    assert running.process.returncode is None
    await desk.client.patch(VIRTUAL_CLUSTERS, "web", FREE, namespace=desk.namespace)
    done = await running.end()
    assert (done.code, done.out) == (0, "virtualcluster.tenancy.x-k8s.io/web deleted\n")


async def test_a_deletion_with_a_grace_period_is_scheduled_and_taken_back(desk: UserTerminal):
    """T2-12, SEC-86."""
    await desk.make(deletionGracePeriod="24h")
    protection = {"metadata": {"labels": {wellknown.DELETION_PROTECTION: "enabled"}}}
    await desk.client.patch(VIRTUAL_CLUSTERS, "web", protection, namespace=desk.namespace)
    none = await desk.run("undelete", "web", "-n", desk.namespace)
    assert (none.code, "is not scheduled for deletion" in none.err) == (1, True)
    done = await desk.run("delete", "web", "-n", desk.namespace)
    assert done.code == 0
    assert f"Take it back with `kubectl vc undelete web -n {desk.namespace}`" in done.out
    metadata = (await desk.fetch())["metadata"]
    assert "deletionTimestamp" not in metadata
    left = datetime.fromisoformat(metadata["annotations"][wellknown.DELETE_AFTER])
    assert timedelta(hours=23) < left - datetime.now(UTC) < timedelta(hours=25)
    assert not deletion.is_protected(metadata.get("labels") or {})

    undone = await desk.run("undelete", "web", "-n", desk.namespace)
    assert undone.out == "virtualcluster.tenancy.x-k8s.io/web undeleted\n"
    metadata = (await desk.fetch())["metadata"]
    assert wellknown.DELETE_AFTER not in (metadata.get("annotations") or {})
    assert deletion.is_protected(metadata["labels"])

    await desk.run("delete", "web", "-n", desk.namespace, "--now", "--no-wait")
    moment = (await desk.fetch())["metadata"]["annotations"][wellknown.DELETE_AFTER]
    assert datetime.fromisoformat(moment) <= datetime.now(UTC)


async def test_deletion_clears_the_protection_that_create_sets(desk: UserTerminal):
    """T2-12, SEC-85."""
    words = ("create", "web", "--cluster-version", VERSION, "-n", desk.namespace, "--no-wait")
    assert (await desk.run(*words)).code == 0
    assert deletion.is_protected((await desk.fetch())["metadata"]["labels"])
    await desk.client.patch(VIRTUAL_CLUSTERS, "web", HELD, namespace=desk.namespace)
    assert (await desk.run("delete", "web", "-n", desk.namespace, "--no-wait")).code == 0
    metadata = (await desk.fetch())["metadata"]
    assert "deletionTimestamp" in metadata
    assert not deletion.is_protected(metadata.get("labels") or {})
    done = await desk.run("undelete", "web", "-n", desk.namespace)
    assert (done.code, "is being deleted already" in done.err) == (1, True)
    await desk.client.patch(VIRTUAL_CLUSTERS, "web", FREE, namespace=desk.namespace)


async def test_deletion_that_takes_too_long_reports_what_is_left(desk: UserTerminal):
    await desk.make()
    await desk.client.patch(VIRTUAL_CLUSTERS, "web", HELD, namespace=desk.namespace)
    await desk.report(Ready=("False", "Deleting", "2 namespaces are left"))
    done = await desk.run("delete", "web", "-n", desk.namespace, "--timeout", "1s")
    assert done.code == 4
    assert "is not deleted after 1.0s: 2 namespaces are left. Deletion continues" in done.err
    quick = await desk.run("delete", "web", "-n", desk.namespace, "--no-wait")
    assert quick.out == "virtualcluster.tenancy.x-k8s.io/web is being deleted\n"
    await desk.client.patch(VIRTUAL_CLUSTERS, "web", FREE, namespace=desk.namespace)
    gone = await desk.run("delete", "web", "-n", desk.namespace, "--ignore-not-found")
    assert (gone.code, gone.out) == (0, "")


async def test_versions_of_both_ends(desk: UserTerminal):
    done = await desk.run("version")
    assert done.code == 0
    assert "kubectl-vc version v" in done.out
    assert "super cluster version v1." in done.out


async def test_impersonation_reaches_the_server(desk: UserTerminal):
    done = await desk.run("list", "-n", desk.namespace, "--as", "bob", "--as-group", "dev")
    assert done.code == 1
    assert "you (bob) may not list virtualclusters" in done.err
    mighty = await desk.run(
        "list", "-n", desk.namespace, "--as", "x", "--as-group", "system:masters"
    )
    assert mighty.code == 0


async def test_templates_and_selectors_are_those_of_kubectl(desk: UserTerminal):
    """kubectl prints them, so the same words give the same bytes."""
    await desk.make("one", clusterVersionName=VERSION)
    await desk.make("two")
    labels = {"metadata": {"labels": {"team": "a"}}}
    await desk.client.patch(VIRTUAL_CLUSTERS, "two", labels, namespace=desk.namespace)
    folder = binaries.path("kubectl").parent
    desk.environment["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
    where = ("-n", desk.namespace)
    found = await desk.run("list", *where, "-l", "team=a", "-o", "name")
    assert found.out == "virtualcluster.tenancy.x-k8s.io/two\n"
    none = await desk.run("list", *where, "-l", "team=b")
    assert (none.code, none.out) == (0, "")
    wrong = await desk.run("list", *where, "-l", "team=(")
    assert (wrong.code, wrong.out) == (1, "")
    for words, out in (
        (("list", "-o", "jsonpath={.items[*].metadata.name}"), b"one two"),
        (("get", "one", "-o", "jsonpath={.metadata.name}"), b"one"),
        (("list", "-l", "team=a", "-o", "custom-columns=N:.metadata.name"), b"N\ntwo\n"),
    ):
        running = await desk.start(*words, *where)
        done = await running.end()
        assert (done.code, done.out.encode()) == (0, out), done.err
    missing = await desk.run("get", "nope", *where, "-o", "jsonpath={.metadata.name}")
    assert (missing.code, "was not found" in missing.err) == (3, True)


async def test_a_watch_prints_each_change(desk: UserTerminal):
    await desk.make()
    running = await desk.start("list", "-n", desk.namespace, "-w", "-o", "name")
    named = b"virtualcluster.tenancy.x-k8s.io/%s\n"
    assert running.process.stdout is not None
    async with asyncio.timeout(30):
        assert await running.process.stdout.readline() == named % b"web"
        await desk.make("later")
        assert await running.process.stdout.readline() == named % b"later"
    running.process.send_signal(signal.SIGINT)
    done = await running.end()
    assert (done.code, "Traceback" in done.err) == (130, False)


async def write_event(desk: UserTerminal, about: dict, reason: str, namespace: str) -> None:
    """Write an Event as the components do."""
    recorder = event_recorder.EventRecorder(desk.client, component="vc-manager")
    subject = {**about, "metadata": {**about["metadata"], "namespace": namespace}}
    recorder.record(subject, reason, f"The sentence of {reason}.")
    task = asyncio.create_task(recorder.run())
    try:
        await eventually(lambda: _has_event(desk, reason, namespace))
    finally:
        task.cancel()


async def _has_event(desk: UserTerminal, reason: str, namespace: str) -> bool:
    found = await desk.client.list(EVENTS, namespace=namespace)
    return reason in {each["reason"] for each in found["items"]}


async def test_events_are_those_of_the_tenant_and_its_root_namespace(desk: UserTerminal):
    body, other = await desk.make(), await desk.make("other")
    root = await desk.root()
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "etcd-0"}}
    await write_event(desk, body, "Created", desk.namespace)
    await write_event(desk, other, "NotMine", desk.namespace)
    await write_event(desk, pod, "BackOff", root)
    done = await desk.run("events", "web", "-n", desk.namespace)
    rows = [line.split() for line in done.out.splitlines()]
    assert rows[0] == ["NAMESPACE", "LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert {(row[0], row[3], row[4]) for row in rows[1:]} == {
        (desk.namespace, "Created", "virtualcluster/web"),
        (root, "BackOff", "pod/etcd-0"),
    }
    running = await desk.start("events", "web", "-n", desk.namespace, "-w")
    assert running.process.stdout is not None
    async with asyncio.timeout(30):
        for _ in range(3):
            await running.process.stdout.readline()
        await write_event(desk, pod, "Pulled", root)
        line = await running.process.stdout.readline()
    assert b"Pulled" in line
    running.process.send_signal(signal.SIGINT)
    assert (await running.end()).code == 130


async def test_describe_has_all_sections_and_reports_what_it_may_not_show(desk: UserTerminal):
    body = await desk.make()
    root = await desk.root()
    await desk.report(
        Ready=WELL, ControlPlaneUpToDate=("False", "RollingOut", "apiserver restarts")
    )
    await write_event(desk, body, "Created", desk.namespace)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "etcd-0", "namespace": root},
        "spec": {"containers": [{"name": "etcd", "image": "etcd"}]},
    }
    await desk.client.create(PODS, pod)
    rows = [
        {
            "name": "apiserver-ca",
            "kind": "certificate",
            "issued": "2026-01-01T00:00:00+00:00",
            "expires": "2036-01-01T00:00:00+00:00",
            "renewal": "2030-01-01T00:00:00+00:00",
        }
    ]
    table = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": wellknown.CERTIFICATES, "namespace": root},
        "data": {wellknown.CERTIFICATES_KEY: json.dumps(rows)},
    }
    await desk.client.create(CONFIG_MAPS, table)
    done = await desk.run("describe", "web", "-n", desk.namespace)
    assert (done.code, done.err) == (0, "")
    heads = [line for line in done.out.splitlines() if line.endswith(":") and line[0] != " "]
    assert heads == ["Conditions:", "Rollout:", "Components:", "Certificates:", "Events:"]
    words = " ".join(done.out.split())
    for part in ("Policy: baseline (default)", "Message: apiserver restarts", "etcd-0 0/1"):
        assert part in words, done.out
    assert "apiserver-ca" in done.out
    assert "The sentence of Created." in done.out

    await allow(desk, "joe", "get")
    less = await desk.run("describe", "web", "-n", desk.namespace)
    assert less.code == 0
    assert "<not shown: you (joe) may not list pods" in less.out
    assert "all is well" in less.out


async def test_logs_name_the_pods_that_are_read(desk: UserTerminal):
    """The real kubectl is started, and the API server has no kubelet to ask."""
    await desk.make()
    root = await desk.root()
    folder = binaries.path("kubectl").parent
    desk.environment["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
    where = ("logs", "web", "-n", desk.namespace)
    none = await desk.run(*where, "--component", "etcd")
    assert (none.code, f"there is no pod of etcd in the namespace {root}" in none.err) == (3, True)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "etcd-0", "namespace": root, "labels": {"component-name": "etcd"}},
        "spec": {"nodeName": "nowhere", "containers": [{"name": "etcd", "image": "etcd"}]},
    }
    await desk.client.create(PODS, pod)
    running = await desk.start(*where, "--component", "etcd", "--tail", "3", "--since", "1h")
    done = await running.end()
    assert (done.code, "nowhere" in done.err) == (1, True), done


async def test_a_dry_run_writes_nothing(desk: UserTerminal):
    where = ("-n", desk.namespace, "--no-wait")
    for value, suffix in (("client", "dry run"), ("server", "server dry run")):
        made = await desk.run("create", "web", *where, f"--dry-run={value}")
        assert made.code == 0, made.err
        assert made.out == f"virtualcluster.tenancy.x-k8s.io/web created ({suffix})\n"
        assert made.err == f"ClusterVersion {VERSION} is used, because none was named.\n"
        assert not await desk.is_there()
    assert (await desk.run("create", "web", *where, "--dry-run=none")).code == 0
    assert (await desk.fetch())["spec"]["clusterVersionName"] == VERSION
    for value, suffix in (("client", "dry run"), ("server", "server dry run")):
        done = await desk.run("delete", "web", *where, f"--dry-run={value}")
        assert done.out == f"virtualcluster.tenancy.x-k8s.io/web deleted ({suffix})\n", done.err
    metadata = (await desk.fetch())["metadata"]
    assert "deletionTimestamp" not in metadata
    assert deletion.is_protected(metadata["labels"])
    refused = await desk.run("create", "Web_1", *where, "--dry-run=server")
    assert refused.code == 1


async def test_wait_false_is_no_wait(desk: UserTerminal):
    words = ("create", "web", "--cluster-version", VERSION, "-n", desk.namespace)
    assert (await desk.run(*words, "--wait=false")).code == 0
    assert (await desk.run("delete", "web", "--wait=false", "-n", desk.namespace)).code == 0
