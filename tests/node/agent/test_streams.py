"""Logs, exec, attach, port-forward and cp by way of the agent: what goes in comes out."""

import hashlib
import itertools
import json
import os
import re

import pytest

from tests.node.agent import calls
from tests.node.minors import MINORS
from tests.support import node_objects
from tests.support.forwards import forwarded, read_from
from tests.support.kubectl import until

pytestmark = pytest.mark.node

_numbers = itertools.count()
TICKER = "trap 'exit 0' TERM; i=0; while :; do i=$((i + 1)); echo tick $i; sleep 0.1; done"


# Logs.


def test_logs_are_the_kubelets(user, pods):
    """Without options everything comes, of the container that was named."""
    logs = user.run("logs", "talker", "-c", "main").splitlines()
    assert sorted(logs) == sorted([*(f"start 1 line {i}" for i in range(1, 6)), "start 1 trouble"])
    assert user.run("logs", "talker", "-c", "side") == "beside\n"


def test_every_option_of_logs_arrives(rig, user, pods):
    """V-05, X-26: each option is checked by its effect."""
    everything = calls.log_options(user, "talker")
    # Kubelets choose between the outputs behind a feature gate that is off: the option arrives.
    path = "/containerLogs/default/talker/main?stream="
    assert rig.curl(path + "All")[1].splitlines() == everything
    status, body = rig.curl(path + "Stderr")
    assert (status, "PodLogsQuerySplitStreams" in body) == (400, True)


def test_logs_of_several_containers_and_pods(user, pods):
    """kubectl asks for each container by itself and puts them together, in any order."""
    main = user.run("logs", "talker", "-c", "main").splitlines()
    of_talker = [*(f"[pod/talker/main] {line}" for line in main), "[pod/talker/side] beside"]

    def logs(*words: str) -> list[str]:
        return sorted(user.run("logs", *words, "--all-containers").splitlines())

    assert logs("talker") == sorted([*main, "beside"])
    assert logs("talker", "--prefix") == sorted(of_talker)
    found = logs("-l", "speaks=yes", "--prefix", "--tail=-1")
    assert found == sorted([*of_talker, "[pod/listener/main] open"])


def test_logs_past_a_backend_that_is_not_verified(user, pods):
    """X-26: the option is for the tenant's API server alone. The agent asks for as much as ever."""
    asked = ("logs", "talker", "-c", "side", "--insecure-skip-tls-verify-backend")
    assert user.run(*asked) == "beside\n"


def test_logs_of_all_pods_of_a_controller(rig, user, pods):
    """X-26: `--all-pods` shows each pod that its selector picks."""
    chosen = {"matchLabels": {"speaks": "yes"}}
    template = {
        "metadata": {"labels": {"speaks": "yes"}},
        "spec": node_objects.pod("x", "true")["spec"],
    }
    rig.tenant.kubectl.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "speakers", "namespace": "default"},
            "spec": {"selector": chosen, "template": template},
        }
    )
    found = user.run("logs", "deployment/speakers", "--all-pods", "--all-containers").splitlines()
    assert {line.split(" ", 1)[0] for line in found} == {
        *("[pod/talker/main]", "[pod/talker/side]", "[pod/listener/main]"),
    }
    assert "[pod/talker/side] beside" in found


def test_logs_are_followed_up_to_a_number_at_once(rig, user, pods):
    """X-26: `--max-log-requests` is a flag of kubectl. It limits the open streams."""
    asked = ("logs", "-f", "-l", "speaks=yes", "--all-containers", "--max-log-requests")
    until(lambda: rig.metric("vc_agent_open_streams") == 0, "no stream is left of before")
    done = user.call(*asked, "2")
    assert (done.code, "maximum allowed concurrency is 2" in done.err) == (1, True)
    with user.running(*asked, "3"):
        until(lambda: rig.metric("vc_agent_open_streams") == 3, "three are followed")


def test_logs_go_on_past_an_error(user, pods):
    """X-26: with `--ignore-errors`, containers that have no such log are told of and passed by."""
    asked = ("logs", "-l", "speaks=yes", "--all-containers", "--previous", "--tail=-1")
    assert user.call(*asked).code == 1
    done = user.call(*asked, "--ignore-errors")
    assert done.code == 0
    assert "start 0 line 1" in done.out
    assert 'previous terminated container "side"' in done.out + done.err


def test_a_log_begins_at_one_time(rig, user, pods):
    """V-06: kubectl, the tenant's API server and the agent refuse two beginnings each."""
    asked = ("logs", "talker", "-c", "side", "--since=1h", "--since-time=2026-01-02T15:04:05Z")
    assert "at most one of `sinceTime` or `sinceSeconds`" in user.call(*asked).err
    both = "sinceSeconds=60&sinceTime=2026-01-02T15:04:05Z"
    path = "/api/v1/namespaces/default/pods/talker/log"
    done = user.call("get", "--raw", f"{path}?container=side&{both}")
    assert "at most one of `sinceTime` or `sinceSeconds`" in done.err
    status, body = rig.curl(f"/containerLogs/default/talker/side?{both}")
    assert (status, "Use one of them" in body) == (400, True)


def test_what_is_not_there_is_reported_in_words_that_people_know(rig, user, pods):
    """V-07: no such container, no such pod. The agent itself tells less of the first."""
    for verb, more in (("logs", ()), ("attach", ()), ("exec", ("--", "true"))):
        done = user.call(verb, "tool", "-c", "nothing", *more)
        assert done.code == 1
        assert re.search("container nothing (not found in|is not valid for) pod tool", done.err)
        done = user.call(verb, "nobody", *more)
        assert (done.code, 'pods "nobody" not found' in done.err) == (1, True), done.err
    path = "/api/v1/namespaces/default/pods/tool/log?container=nothing"
    done = user.call("get", "--raw", path)
    assert "container nothing is not valid for pod tool" in done.err
    assert rig.curl("/containerLogs/default/tool/nothing")[0] == 403
    assert rig.curl("/containerLogs/default/nobody/main")[0] == 404


def test_following_a_log_ends_with_its_reader(rig, user):
    """`logs -f` shows lines as they come, and the kubelet is let go when the reader leaves."""
    if not user.exists("pod", "ticker"):
        rig.place(rig.tenant, node_objects.pod("ticker", TICKER))
        rig.wait(rig.tenant, "ticker")
    until(lambda: rig.metric("vc_agent_open_streams") == 0, "no stream is left of before")
    with user.running("logs", "-f", "ticker") as following:
        lines = [following.stdout.readline() for _ in range(20)]
        until(lambda: rig.metric("vc_agent_open_streams") == 1, "the stream is counted")
    numbers = [int(line.removeprefix("tick ")) for line in lines]
    assert numbers == list(range(numbers[0], numbers[0] + 20))
    until(lambda: rig.metric("vc_agent_open_streams") == 0, "the stream has ended")
    last = [line for line in rig.audit() if line["pod"] == "ticker"][-1]
    assert (last["verb"], last["result"]) == ("logs", "caller_gone")


def test_following_ends_when_the_container_does(rig):
    """A log that is followed to its end comes whole, and kubectl exits 0."""
    rig.place(rig.tenant, node_objects.pod("short", "for i in 1 2 3; do echo $i; sleep 0.5; done"))
    rig.super_kubectl.run(
        *("patch", "pod", "short", "-n", rig.tenant.super_namespace(), "--type=merge"),
        *("-p", '{"spec": {"activeDeadlineSeconds": 60}}'),
    )
    rig.wait(rig.tenant, "short")
    assert rig.tenant.kubectl.run("logs", "-f", "short").splitlines()[:3] == ["1", "2", "3"]


# Exec, attach, port-forward.


@pytest.mark.parametrize("minor", MINORS)
def test_each_minor_of_kubectl_is_what_it_claims_and_works(rig, pods, minor):
    """The part of the matrix for which there is always time."""
    user = rig.tenant.kubectl.of_minor(minor)
    said = json.loads(user.run("version", "--client", "-o", "json"))["clientVersion"]["gitVersion"]
    assert said.startswith(f"v{minor}.")
    assert user.run("logs", "talker", "-c", "side", "--tail=1") == "beside\n"
    script = "cat; echo aside >&2; exit 137"
    done = user.call("exec", "-i", "tool", "--", "sh", "-c", script, stdin="through")
    assert (done.code, done.out, done.err.splitlines()[0]) == (137, "through", "aside")
    with forwarded(user, "listener", 8080) as port:
        assert until(lambda: read_from(port), "the container's answer") == b"hi there\n"


@pytest.mark.parametrize("code", [0, 1, 42, 137])
def test_exec_gives_the_exit_code(user, pods, leg, code):
    """REL-94, X-26: the command's exit code is kubectl's, its two outputs stay apart."""
    script = f"echo out; echo err >&2; exit {code}"
    done = user.call("exec", "tool", "--", "sh", "-c", script)
    assert done.code == code
    assert done.out == "out\n"
    assert done.err.splitlines()[0] == "err"


def test_exec_takes_input_to_its_end(user, pods, leg):
    """REL-87: input that ends lets the command end, and its output comes whole."""
    text = "".join(f"line {i}\n" for i in range(50_000))
    done = user.call(
        "exec", "-i", "tool", "--", "sh", "-c", "cat | md5sum; cat /dev/null", stdin=text
    )
    assert done.out.split()[0] == hashlib.md5(text.encode()).hexdigest()  # noqa: S324 - a check
    assert user.call("exec", "-i", "tool", "--", "cat", stdin=text).out == text


def test_exec_has_a_terminal(user, pods, leg):
    """V-05, X-26: the terminal of `-it` has the caller's size, and each later one."""
    calls.terminal(user, "tool")


def test_arguments_arrive_as_they_were_written(user, pods, leg):
    """Spaces, quotes, percent signs, umlauts and empty words are not touched."""
    words = ["a b", "c&d=e", "%41%2F", "plus+plus", "\u00e4\u4e2d", "", "'\"", "x" * 20_000]
    done = user.call("exec", "tool", "--", "printf", "%s\\n", *words)
    assert done.out.split("\n")[:-1] == words


def test_exec_of_nothing_reports_why(user, pods, leg):
    """The runtime's own words reach the user."""
    done = user.call("exec", "tool", "--", "/no/such/program")
    assert done.code != 0
    assert "/no/such/program" in done.err


def test_attach_talks_to_the_main_process(user, pods, leg):
    """REL-94, X-26: attach reads what the process writes and writes what it reads."""
    with user.running("attach", "-i", "reader") as attached:
        attached.stdin.write("hello\n")
        assert attached.stdout.readline() == "got hello\n"


def test_attach_has_a_terminal(rig, user):
    """V-05, X-26: the main process's terminal has the size of the attached one, and each later
    one."""
    looks = "for rows in 33 44; do until stty size | grep -w $rows; do sleep 0.1; done; done"
    name = f"screen-{next(_numbers)}"
    made = node_objects.pod(name, f"{looks}; sleep 1", restartPolicy="Never")
    made["spec"]["containers"][0] |= {"stdin": True, "tty": True}
    rig.place(rig.tenant, made)
    rig.wait(rig.tenant, name)
    done = user.terminal(calls.resizing(f"timeout --foreground 30 kubectl attach -it {name}"))
    assert "33 111" in done.out
    assert "44 111" in done.out
    assert done.code == 0


def test_several_ports_are_forwarded_by_one_call(rig, user):
    """REL-94, X-26: each leads to its own."""
    doors = {8081: "main", 8082: "second"}
    listens = {port: f"while :; do echo door {port} | nc -l -p {port}; done" for port in doors}
    made = node_objects.pod("doors", listens[8081])
    made["spec"]["containers"].append(node_objects.container(listens[8082], "second"))
    rig.place(rig.tenant, made)
    rig.wait(rig.tenant, "doors")
    ports: dict[int, int] = {}
    with user.running("port-forward", "pod/doors", *(f":{port}" for port in doors)) as forwarding:
        while len(ports) < len(doors):
            near, _, far = forwarding.stdout.readline().partition(" -> ")
            assert far, forwarding.stderr.read()
            if "127.0.0.1:" in near:
                ports[int(far)] = int(near.rpartition(":")[2])
        for far, near in ports.items():
            said = until(lambda near=near: read_from(near), f"the answer of {doors[far]}")
            assert said == f"door {far}\n".encode()


def test_ports_are_forwarded(user, pods, leg):
    """REL-94, X-26: a connection to the forwarded port reaches the container."""
    with forwarded(user, "listener", 8080) as port:
        assert until(lambda: read_from(port), "the container's answer") == b"hi there\n"


def test_copies_are_whole(user, pods, tmp_path):
    """X-26: `kubectl cp` both ways gives back the same bytes."""
    content = os.urandom(8 * 1024 * 1024)
    source = tmp_path / "source"
    source.write_bytes(content)
    user.run("cp", str(source), "tool:/tmp/copy")
    user.run("cp", "tool:/tmp/copy", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == content
