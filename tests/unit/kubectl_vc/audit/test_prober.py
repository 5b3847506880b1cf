"""The pods of an audit: allowed at the restricted level, and a script whose lines are read back."""

from __future__ import annotations

import subprocess

import pytest

from kubectl_vc.audit import prober
from kubectl_vc.audit.addresses import TargetAddress
from kubectl_vc.audit.probes import Answer, Target
from tenancy import wellknown

ENDPOINTS = [TargetAddress(Target.DECOY_POD, f"10.0.0.{number}", 8080) for number in range(5)]


def test_the_pods_of_tenants_have_the_restricted_level():
    for pod in (
        prober.build_server("server", "busybox"),
        prober.build_prober("prober", "busybox", ENDPOINTS),
        prober.build_plain_pod("plain", "busybox"),
        prober.build_waiting_pod("waiting", "busybox"),
    ):
        spec, container = pod["spec"], pod["spec"]["containers"][0]
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
        assert not spec["automountServiceAccountToken"]


def test_the_pods_of_tenants_have_no_owner():
    """Some network plugins leave out such pods, and every tenant can create them."""
    for pod in (
        prober.build_server("server", "busybox"),
        prober.build_prober("prober", "busybox", ENDPOINTS),
    ):
        assert pod["kind"] == "Pod"
        assert "ownerReferences" not in pod["metadata"]


def test_the_node_prober_runs_on_the_network_of_one_node():
    spec = prober.build_node_prober("node", "busybox", "n1", ENDPOINTS)["spec"]
    assert (spec["hostNetwork"], spec["nodeName"]) == (True, "n1")
    assert spec["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_the_script_reports_each_endpoint(tmp_path):
    """Run with a shell and an `nc` of its own, which answers by the last digit of the address."""
    (tmp_path / "nc").write_text(
        "#!/bin/sh\n"
        'case "$3" in\n'
        "  10.0.0.0) exit 0 ;;\n"
        '  10.0.0.1) echo "nc: cannot connect: Connection refused" >&2 ;;\n'
        '  10.0.0.2) echo "nc: timed out" >&2 ;;\n'
        '  10.0.0.3) echo "nc: cannot connect: Cannot assign requested address" >&2 ;;\n'
        '  *) echo "nc: bad address" >&2 ;;\n'
        "esac\nexit 1\n"
    )
    (tmp_path / "nc").chmod(0o755)
    (tmp_path / "sleep").write_text("#!/bin/sh\n")
    (tmp_path / "sleep").chmod(0o755)
    log = tmp_path / "log"
    script = prober.build_script(ENDPOINTS).replace("/dev/termination-log", str(log))
    subprocess.run(["/bin/sh", "-c", script], check=True, env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    answers = prober.parse_answers(log.read_text(), ENDPOINTS)
    assert list(answers.values()) == [
        Answer.OPEN,
        Answer.REFUSED,
        Answer.TIMEOUT,
        Answer.REFUSED,  # a pod without IPv6
        Answer.MISSING,
    ]


def test_lines_that_are_missing_or_strange_are_no_result():
    answers = prober.parse_answers("0=open\n1=sure\nnoise\n", ENDPOINTS)
    assert list(answers.values()) == [Answer.OPEN, *[Answer.MISSING] * 4]


def status(name: str = "main", **terminated: str) -> dict:
    return {"status": {"containerStatuses": [{"name": name, "state": {"terminated": terminated}}]}}


def test_a_running_prober_has_no_message():
    assert prober.get_termination_message({}) is None
    assert prober.get_termination_message(status(message="0=open\n")) == "0=open\n"
    assert prober.get_termination_message(status()) == ""
    assert prober.get_termination_message(status("sidecar", message="0=open\n")) is None


MAIN = prober.build_prober("prober", "busybox", ENDPOINTS)["spec"]["containers"][0]
SIDECAR = {"name": "istio-proxy", "image": "proxy"}


@pytest.mark.parametrize(
    ("containers", "listed", "is_changed"),
    [
        ([MAIN], "main", False),
        ([{**MAIN, "env": [{"name": "A"}], "args": [], "volumeMounts": []}], "main", False),
        ([SIDECAR, MAIN], "main", False),  # injected in the super cluster
        ([MAIN, SIDECAR], "main,istio-proxy", True),
        ([MAIN], "copy,main", True),  # an init container of the tenant
        ([MAIN], "", True),
        ([SIDECAR], "main", True),
        ([{**MAIN, "image": "evil"}], "main", True),
        ([{**MAIN, "command": ["echo", "0=timeout"]}], "main", True),
        ([{**MAIN, "args": ["x"]}], "main", True),
        ([{**MAIN, "lifecycle": {"postStart": {"exec": {"command": ["x"]}}}}], "main", True),
        ([{**MAIN, "volumeMounts": [{"name": "v", "mountPath": "/bin"}]}], "main", True),
    ],
)
def test_a_pod_that_runs_another_program_is_changed(containers, listed, is_changed):
    asked = prober.build_prober("prober", "busybox", ENDPOINTS)
    metadata = {"annotations": {wellknown.CONTAINERS: listed}}
    found = {"metadata": metadata, "spec": {"containers": containers}}
    assert prober.is_changed(found, asked) is is_changed
