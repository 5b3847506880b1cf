"""Callers reach their own pods only, on the listed routes only, with a known identity only."""

import base64
import subprocess
import urllib.request
import uuid
from datetime import UTC, datetime

import pytest

from tenancy import wellknown
from tenancy.agent_permissions import KubeletCall
from tests.node.agent.rig import SLEEPER
from tests.support import node_objects
from tests.support.agents import YEAR, write
from tests.support.kubectl import until
from vcmanager.pki.authority import CertificateSubject, KeyPair, make_authority, make_leaf

pytestmark = pytest.mark.node


# Whose pods.


def test_the_others_pods_are_not_there(rig, pods):
    """Equal names, two tenants: each reaches its own, and no super namespace of the other."""
    rig.place(rig.other, node_objects.pod("tool", "echo I belong to the other; " + SLEEPER))
    rig.wait(rig.other, "tool")
    status, body = rig.curl("/containerLogs/default/tool/main", tenant=rig.other)
    assert (status, body) == (200, "I belong to the other\n")
    assert rig.curl("/containerLogs/default/tool/main") == (200, "")
    for space in (rig.other.super_namespace(), rig.tenant.super_namespace(), "kube-system"):
        status, body = rig.curl(f"/containerLogs/{space}/tool/main")
        assert status == 404
        assert "belong" not in body
    assert rig.curl("/containerLogs/default/talker/main", tenant=rig.other)[0] == 404


def test_what_the_super_cluster_adds_is_out_of_reach(rig):
    """SEC-05, SEC-06: an injected container, and pods without the whole record."""
    injected = node_objects.pod("injected", SLEEPER)
    injected["spec"]["containers"].append(node_objects.container("echo secret; " + SLEEPER, "mesh"))
    rig.place(rig.tenant, injected, **{wellknown.CONTAINERS: "main"})
    rig.place(rig.tenant, node_objects.pod("bare", SLEEPER), **{wellknown.UID: ""})
    for name in ("injected", "bare"):
        rig.wait(rig.tenant, name)
    assert rig.curl("/containerLogs/default/injected/main")[0] == 200
    status, body = rig.curl("/containerLogs/default/injected/mesh")
    assert (status, "secret" in body) == (403, False)
    assert rig.curl("/containerLogs/default/bare/main")[0] == 404
    done = rig.tenant.kubectl.call("exec", "injected", "-c", "mesh", "--", "true")
    assert done.code != 0
    assert "no container 'mesh'" in done.err


def test_ports_of_the_host_are_not_forwarded(rig):
    """SEC-16: a pod on the host's network would open the node's loopback."""
    rig.place(rig.tenant, node_objects.pod("host", SLEEPER, hostNetwork=True))
    rig.wait(rig.tenant, "host")
    assert rig.curl("/containerLogs/default/host/main")[0] == 200
    upgrade = ("-H", "Connection: Upgrade", "-H", "Upgrade: SPDY/3.1", "-X", "POST")
    status, body = rig.curl("/portForward/default/host", *upgrade)
    assert (status, "host's network" in body) == (403, True)


def test_a_uid_in_the_path_must_be_the_pods(rig, pods):
    """The tenant's UID is checked and becomes the super pod's."""
    own = pods["tool"]["metadata"]["annotations"][wellknown.UID]
    upgrade = ("-H", "Connection: Upgrade", "-H", "Upgrade: websocket", "-H")
    upgrade += ("Sec-WebSocket-Version: 13", "-H")
    key = "Sec-WebSocket-Key: " + base64.b64encode(bytes(16)).decode()
    query = "main?command=true&output=1"
    found = rig.curl(f"/exec/default/tool/{own}/{query}", *upgrade, key, "--max-time", "1")
    assert found[0] == 101
    assert rig.curl(f"/exec/default/tool/{uuid.uuid4()}/{query}", *upgrade, key)[0] == 404
    super_uid = pods["tool"]["metadata"]["uid"]
    assert rig.curl(f"/exec/default/tool/{super_uid}/{query}", *upgrade, key)[0] == 404


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/pods/default", "/stats", "/stats/container", "/metrics", "/metrics/cadvisor"),
        *("/metrics/resource/", "/logs/", "/configz", "/spec/", "/checkpoint/default/tool/main"),
        *("/run/default/tool", "/debug/pprof/", "/debug/flags/v", "/healthz/ping"),
        *("/containerLogs/default/tool/..%2f..%2fpods", "/containerLogs/default/tool/main/"),
        *("/containerLogs/default//tool/main", "/containerLogs/../pods", "//pods", "/./pods"),
        *("/containerLogs/default/tool/main;x", "/containerLogs/default/tool/ma%69n"),
    ],
)
def test_nothing_else_is_served(rig, pods, path):
    """SEC-04, SEC-07: what is not a route is not there, the kubelet's own paths included."""
    assert rig.curl(path)[0] == 404


def test_a_missing_pod_is_looked_for_on_the_node(rig):
    """SEC-17: a pod that is not on this node is not there, and one that comes is found at once."""
    assert rig.curl("/containerLogs/default/late/main")[0] == 404
    rig.place(rig.tenant, node_objects.pod("late", "echo here I am; " + SLEEPER))
    rig.wait(rig.tenant, "late")
    assert rig.curl("/containerLogs/default/late/main") == (200, "here I am\n")


# What the tenant's policy lets through.


def test_what_a_policy_switches_off_is_refused_and_ends(rig, pods):
    """kubectl shows the sentence. What runs is cut. The other tenant is not touched."""
    with rig.tenant.kubectl.running("exec", "-i", "tool", "--", "cat") as running:
        running.stdin.write("hello\n")
        assert running.stdout.readline() == "hello\n"
        rig.permit(KubeletCall.EXEC)
        try:
            running.wait(timeout=30)  # with 0: kubectl takes a stream that broke for one that ended
            done = rig.tenant.kubectl.call("exec", "tool", "--", "true")
            assert done.code != 0
            assert "spec.access.exec of its TenantPolicy 'shops' is false" in done.err
            rig.tenant.kubectl.run("logs", "tool")
            rig.place(rig.other, node_objects.pod("free", SLEEPER))
            rig.wait(rig.other, "free")
            rig.other.kubectl.run("exec", "free", "--", "true")
        finally:
            rig.permit()
    until(
        lambda: rig.tenant.kubectl.call("exec", "tool", "--", "true").code == 0,
        "exec is switched on again",
    )


# Who calls.


def test_no_client_without_our_certificate(rig, pods, tmp_path):
    """SEC-01, SEC-02: no certificate, one of another authority, one without our URI."""
    address = f"https://127.0.0.1:{rig.port}/containerLogs/default/tool/main"
    authority = ["--cacert", str(rig.folder / "serving-ca.crt")]
    now = datetime.now(UTC)
    uri = f"vc://{rig.tenant.vc_uid}/{rig.tenant.root}"
    client = frozenset({"client"})
    strangers = make_authority("vn-agent-client", now=now)
    forged = CertificateSubject(common_name=rig.tenant.root, uris=(uri,), usages=client)
    nameless = CertificateSubject(common_name=rig.tenant.root, usages=client)
    server = CertificateSubject(common_name="x", uris=(uri,), usages=frozenset({"server"}))
    cases: dict[str, tuple[KeyPair, CertificateSubject]] = {
        "forged": (strangers, forged),
        "nameless": (rig.client_authority, nameless),
        "server": (rig.client_authority, server),
    }
    answers = {}
    for name, (signer, subject) in cases.items():
        leaf = make_leaf(signer, subject, lifetime=YEAR, now=now)
        files = ["--cert", str(write(tmp_path / f"{name}.crt", leaf.certificate))]
        files += ["--key", str(write(tmp_path / f"{name}.key", leaf.key))]
        answers[name] = _status(address, *authority, *files)
    answers["none"] = _status(address, *authority)
    assert answers == {"none": 0, "forged": 0, "server": 0, "nameless": 403}


def _status(address: str, *options: str) -> int:
    command = ["curl", "--silent", "--max-time", "10", "--write-out", "%{http_code}", *options]
    done = subprocess.run([*command, address], capture_output=True, text=True, check=False)
    return int(done.stdout[-3:])


def test_health_names_no_tenant(rig):
    """The health route answers tenants. The plain port shows no tenant and no pod."""
    assert rig.curl("/healthz") == (200, "ok\n")
    url = f"http://127.0.0.1:{rig.health_port}/metrics"
    text = urllib.request.urlopen(url, timeout=5).read().decode()
    assert "vc_agent_sessions_total" in text
    for word in (rig.tenant.root, rig.tenant.vc_uid, "tool", "talker"):
        assert word not in text


def test_sessions_are_written_down_without_their_commands(rig, pods):
    """One line each: tenant, pod, verb, bytes, duration, result."""
    known = len(rig.audit())
    rig.tenant.kubectl.run("exec", "tool", "--", "echo", "pa55word")
    line = until(
        lambda: next((a for a in rig.audit()[known:] if a["verb"] == "exec"), None), "the line"
    )
    assert line["tenant"] == rig.tenant.root
    assert (line["vc_uid"], line["pod"], line["container"]) == (rig.tenant.vc_uid, "tool", "main")
    assert (line["status"], line["result"]) == (101, "complete")
    assert line["bytes_down"] > 0
    assert line["seconds"] >= 0
    assert "pa55word" not in rig.agent.log.read_text()
