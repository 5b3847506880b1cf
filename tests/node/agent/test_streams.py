"""Logs, exec, attach, port-forward and cp by way of the agent: what goes in comes out."""

import hashlib
import os
import socket
import subprocess
import time
from datetime import UTC, datetime, timedelta

import pytest

from tests.node import objects
from tests.node.agent.rig import Rig, patch_node
from tests.node.kubectl import until

pytestmark = pytest.mark.node

SPDY, WEBSOCKET = "spdy", "websocket"
"""What the apiserver speaks to the kubelet: the latter where the node declares it."""
TICKER = "trap 'exit 0' TERM; i=0; while :; do i=$((i + 1)); echo tick $i; sleep 0.1; done"


@pytest.fixture(params=[(SPDY, "true"), (WEBSOCKET, "true"), (SPDY, "false")], ids=str)
def leg(rig: Rig, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """REL-94: each way in which a stream can come along."""
    towards_kubelet, kubectl_websockets = request.param
    declared = ["ExtendWebSocketsToKubelet"] if towards_kubelet == WEBSOCKET else []
    patch_node(rig.tenant, declaredFeatures=declared)
    monkeypatch.setenv("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", kubectl_websockets)
    monkeypatch.setenv("KUBECTL_PORT_FORWARD_WEBSOCKETS", kubectl_websockets)
    return towards_kubelet


# Logs.


def test_logs_are_the_kubelets(rig, pods):
    """Without options everything comes, of the container that was named."""
    logs = rig.tenant.kubectl.run("logs", "talker", "-c", "main").splitlines()
    assert sorted(logs) == sorted([*(f"start 1 line {i}" for i in range(1, 6)), "start 1 trouble"])
    assert rig.tenant.kubectl.run("logs", "talker", "-c", "side") == ""


def test_every_option_of_logs_arrives(rig, pods):
    """Each option is checked by its effect."""
    kubectl = rig.tenant.kubectl

    def logs(*options: str) -> list[str]:
        return kubectl.run("logs", "talker", "-c", "main", *options).splitlines()

    everything = logs()
    assert logs("--tail=2") == everything[-2:]
    assert logs("--tail=0") == []
    assert "start 0 line 1" in logs("--previous")
    assert (
        kubectl.run("logs", "talker", "-c", "main", "--limit-bytes=7") == "\n".join(everything)[:7]
    )
    stamped = logs("--timestamps")
    assert [line.split(" ", 1)[1] for line in stamped] == everything
    stamps = [line.split(" ", 1)[0] for line in stamped]
    later = max(stamps)[:19]
    moment = datetime.fromisoformat(later).replace(tzinfo=UTC) + timedelta(seconds=1)
    assert logs(f"--since-time={moment.isoformat()}") == []
    assert logs(f"--since-time={(moment - timedelta(hours=1)).isoformat()}") == everything
    assert logs("--since=1h") == everything
    time.sleep(1.1)
    assert logs("--since=1s") == []
    # Kubelets choose between the outputs behind a feature gate that is off: the option arrives.
    path = "/containerLogs/default/talker/main?stream="
    assert rig.curl(path + "All")[1].splitlines() == everything
    status, body = rig.curl(path + "Stderr")
    assert (status, "PodLogsQuerySplitStreams" in body) == (400, True)


def test_following_a_log_ends_with_its_reader(rig):
    """`logs -f` shows lines as they come, and the kubelet is let go when the reader leaves."""
    rig.place(rig.tenant, objects.pod("ticker", TICKER))
    rig.wait(rig.tenant, "ticker")
    environment = {**os.environ, "KUBECONFIG": str(rig.tenant.kubectl.kubeconfig)}
    environment["PATH"] = rig.tenant.kubectl.path
    until(lambda: rig.metric("vc_agent_open_streams") == 0, "no stream is left of before")
    with subprocess.Popen(
        ["kubectl", "logs", "-f", "ticker"], env=environment, stdout=subprocess.PIPE, text=True
    ) as following:
        assert following.stdout is not None
        lines = [following.stdout.readline() for _ in range(20)]
        assert rig.metric("vc_agent_open_streams") == 1
        following.kill()
    numbers = [int(line.removeprefix("tick ")) for line in lines]
    assert numbers == list(range(numbers[0], numbers[0] + 20))
    until(lambda: rig.metric("vc_agent_open_streams") == 0, "the stream has ended")
    last = [line for line in rig.audit() if line["pod"] == "ticker"][-1]
    assert (last["verb"], last["result"]) == ("logs", "caller_gone")


def test_following_ends_when_the_container_does(rig):
    """A log that is followed to its end comes whole, and kubectl exits 0."""
    rig.place(rig.tenant, objects.pod("short", "for i in 1 2 3; do echo $i; sleep 0.5; done"))
    rig.super_kubectl.run(
        *("patch", "pod", "short", "-n", rig.tenant.super_namespace(), "--type=merge"),
        *("-p", '{"spec": {"activeDeadlineSeconds": 60}}'),
    )
    rig.wait(rig.tenant, "short")
    assert rig.tenant.kubectl.run("logs", "-f", "short").splitlines()[:3] == ["1", "2", "3"]


# Exec, attach, port-forward.


@pytest.mark.parametrize("code", [0, 1, 42, 137])
def test_exec_gives_the_exit_code(rig, pods, leg, code):
    """The command's exit code is kubectl's, its two outputs stay apart."""
    script = f"echo out; echo err >&2; exit {code}"
    done = rig.tenant.kubectl.call("exec", "tool", "--", "sh", "-c", script)
    assert done.code == code
    assert done.out == "out\n"
    assert done.err.splitlines()[0] == "err"


def test_exec_takes_input_to_its_end(rig, pods, leg):
    """REL-87: input that ends lets the command end, and its output comes whole."""
    text = "".join(f"line {i}\n" for i in range(50_000))
    done = rig.tenant.kubectl.call(
        "exec", "-i", "tool", "--", "sh", "-c", "cat | md5sum; cat /dev/null", stdin=text
    )
    assert done.out.split()[0] == hashlib.md5(text.encode()).hexdigest()  # noqa: S324 - a check
    assert rig.tenant.kubectl.call("exec", "-i", "tool", "--", "cat", stdin=text).out == text


def test_exec_has_a_terminal(rig, pods, leg):
    """`-it` gives the command a terminal with the size of the caller's."""
    # The size comes on a stream of its own, and so maybe after the command has begun.
    command = "tty; until stty size | grep -w 33; do sleep 0.1; done; exit 7"
    done = rig.tenant.kubectl.terminal(
        f"stty rows 33 cols 111; timeout --foreground 20 kubectl exec -it tool -- sh -c '{command}'"
    )
    assert "/dev/pts/" in done.out
    assert "33 111" in done.out
    assert done.code == 7


def test_arguments_arrive_as_they_were_written(rig, pods, leg):
    """Spaces, quotes, percent signs, umlauts and empty words are not touched."""
    words = ["a b", "c&d=e", "%41%2F", "plus+plus", "\u00e4\u4e2d", "", "'\"", "x" * 20_000]
    done = rig.tenant.kubectl.call("exec", "tool", "--", "printf", "%s\\n", *words)
    assert done.out.split("\n")[:-1] == words


def test_exec_of_nothing_says_why(rig, pods, leg):
    """The runtime's own words reach the user."""
    done = rig.tenant.kubectl.call("exec", "tool", "--", "/no/such/program")
    assert done.code != 0
    assert "/no/such/program" in done.err


def test_attach_talks_to_the_main_process(rig, pods, leg):
    """Attach reads what the process writes and writes what it reads."""
    environment = {**os.environ, "KUBECONFIG": str(rig.tenant.kubectl.kubeconfig)}
    environment["PATH"] = rig.tenant.kubectl.path
    with subprocess.Popen(
        ["kubectl", "attach", "-i", "reader"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as attached:
        assert attached.stdin is not None
        assert attached.stdout is not None
        attached.stdin.write("hello\n")
        assert attached.stdout.readline() == "got hello\n"
        attached.kill()


def test_ports_are_forwarded(rig, pods, leg):
    """A connection to the forwarded port reaches the container."""
    environment = {**os.environ, "KUBECONFIG": str(rig.tenant.kubectl.kubeconfig)}
    environment["PATH"] = rig.tenant.kubectl.path
    with subprocess.Popen(
        ["kubectl", "port-forward", "pod/listener", ":8080"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as forwarding:
        assert forwarding.stdout is not None
        port = int(forwarding.stdout.readline().rpartition("127.0.0.1:")[2].split()[0])

        def ask() -> bytes:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
                return connection.recv(100)

        assert until(ask, "the container's answer") == b"hi there\n"
        forwarding.kill()


def test_copies_are_whole(rig, pods, tmp_path):
    """`kubectl cp` both ways gives back the same bytes."""
    content = os.urandom(8 * 1024 * 1024)
    source = tmp_path / "source"
    source.write_bytes(content)
    kubectl = rig.tenant.kubectl
    kubectl.run("cp", str(source), "tool:/tmp/copy")
    kubectl.run("cp", "tool:/tmp/copy", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == content
