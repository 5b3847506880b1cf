"""Flags and the environment."""

from pathlib import Path

import pytest

from vnagent import settings
from vnagent.authz.metrics import UpstreamMode
from vnagent.client.https_client import ServerAddress
from vnagent.upstream.upstream_mode import UpstreamSetting

CHART = {
    "POD_NAME": "vn-agent-x",
    "POD_NAMESPACE": "vc-manager",
    "LOG_LEVEL": "WARNING",
    "NODE_NAME": "node-1",
    "HOST_IP": "10.0.0.1",
    "POD_IP": "10.1.0.7",
    "CLIENT_CA_FILE": "/etc/vn-agent/trust/client-ca.crt",
    "KUBELET_CA_FILE": "/etc/vn-agent/kubelet/ca.crt",
    "KUBERNETES_SERVICE_HOST": "10.96.0.1",
    "KUBERNETES_SERVICE_PORT": "443",
}
"""What the chart and the kubelet give to the pod."""


def test_the_chart_gives_enough():
    """SEC-13: no flag is needed in a pod, and tenants' port is open at the pod's address alone."""
    given = settings.parse_settings([], CHART, "v1")
    assert (given.listen_host, given.port, given.health_port) == ("10.1.0.7", 10550, 10551)
    assert given.metrics_port == 10552
    assert given.kubelet == ServerAddress("10.0.0.1", 10250, "10.0.0.1")
    assert given.api == ServerAddress("10.96.0.1", 443, "10.96.0.1")
    assert given.client_authorities_file == Path("/etc/vn-agent/trust/client-ca.crt")
    assert given.token_file == Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
    assert given.log_level == "WARNING"
    assert given.static_certificate is None
    assert (given.node, given.upstream) == ("node-1", UpstreamSetting.AUTO)


def test_flags_win_over_the_environment():
    """As everywhere."""
    given = settings.parse_settings(
        ["--port=1", "--kubelet-server-name=node-1", "--max-streams=3"]
        + ["--tls-cert-file=a", "--tls-private-key-file=b", "--stream-idle-seconds=1.5"],
        {**CHART, "PORT": "2", "MAX_STREAMS_PER_TENANT": "4"},
        "v1",
    )
    assert (given.port, given.streams, given.streams_per_tenant) == (1, 3, 4)
    assert given.kubelet.server_name == "node-1"
    assert given.deadlines.idle_seconds == 1.5
    assert given.static_certificate is not None
    assert given.static_certificate.key_file == Path("b")


@pytest.mark.parametrize(
    "missing",
    ["CLIENT_CA_FILE", "HOST_IP", "NODE_NAME", "POD_IP", "POD_NAME", "POD_NAMESPACE"],
)
def test_without_what_it_needs_it_does_not_start(missing, capsys):
    """SEC-01: above all not without the client authority."""
    environment = {key: value for key, value in CHART.items() if key != missing}
    with pytest.raises(SystemExit) as ended:
        settings.parse_settings([], environment, "v1")
    assert ended.value.code == 2
    assert "is not set" in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags",
    [
        ["--port=x"],
        ["--tls-cert-file=a"],
        ["--insecure"],
        ["--max-streams=1.5"],
        ["--upstream=insecure"],
    ],
)
def test_odd_flags_are_refused(flags, capsys):
    """With a sentence and exit code 2."""
    with pytest.raises(SystemExit) as ended:
        settings.parse_settings(flags, CHART, "v1")
    assert ended.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_the_environment_may_choose_the_way():
    """As the chart does. What it cannot mean ends the program too."""
    assert (
        settings.parse_settings([], {**CHART, "UPSTREAM": "apiserver"}, "v1").upstream
        is UpstreamSetting.APISERVER
    )
    with pytest.raises(SystemExit):
        settings.parse_settings([], {**CHART, "UPSTREAM": "insecure"}, "v1")


def test_the_version_is_reported(capsys):
    """`--version` ends the program with 0."""
    with pytest.raises(SystemExit) as ended:
        settings.parse_settings(["--version"], {}, "vn-agent v1")
    assert (ended.value.code, capsys.readouterr().out) == (0, "vn-agent v1\n")


TARGET = {
    **{key: value for key, value in CHART.items() if key not in ("NODE_NAME", "HOST_IP")},
    "TARGET_SERVER": "https://10.0.0.5:6443",
    "TARGET_REGISTRATION": "cccccccc-0000-4000-8000-000000000000",
}
"""What vc-manager gives to the agent of a target."""


def test_a_target_stands_in_place_of_a_node():
    """No node and no kubelet is named, and the credential is another than ours."""
    given = settings.parse_settings([], TARGET, "v1").target
    assert given is not None
    assert given.server == ServerAddress("10.0.0.5", 6443, "10.0.0.5")
    assert given.registration == TARGET["TARGET_REGISTRATION"]
    assert given.token_file == Path("/etc/vn-agent/target/token")
    assert given.authorities_file == Path("/etc/vn-agent/target/ca.crt")
    assert settings.parse_settings([], CHART, "v1").target is None


@pytest.mark.parametrize(
    ("upstream", "mode"),
    [
        (None, UpstreamMode.APISERVER),
        ("auto", UpstreamMode.APISERVER),
        ("apiserver", UpstreamMode.APISERVER),
        ("kubelet", UpstreamMode.KUBELET),
    ],
)
def test_kubelets_of_a_target_are_asked_by_a_clear_word_alone(upstream, mode):
    """Their authority is stored with the credential. That of the home cluster is never used."""
    environment = TARGET if upstream is None else {**TARGET, "UPSTREAM": upstream}
    given = settings.parse_settings([], environment, "v1").target
    assert given is not None
    assert (given.mode, given.kubelet_port) == (mode, 10250)
    assert given.kubelet_authorities_file == Path("/etc/vn-agent/target/kubelet-ca.crt")
    given = settings.parse_settings(["--kubelet-port=10260"], environment, "v1").target
    assert given is not None
    assert given.kubelet_port == 10260


def test_a_target_may_be_behind_a_proxy_and_another_name():
    """As spec.server and spec.tlsServerName say."""
    environment = {**TARGET, "TARGET_SERVER": "https://[fd00::5]/k8s/c-1/"}
    environment["TARGET_SERVER_NAME"] = "far.example"
    given = settings.parse_settings([], environment, "v1").target
    assert given is not None
    assert given.server == ServerAddress("fd00::5", 443, "far.example", "/k8s/c-1")
    assert given.server.authority == "[fd00::5]:443"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TARGET_REGISTRATION", ""),
        ("TARGET_REGISTRATION", "a,b"),
        ("TARGET_SERVER", "http://10.0.0.5:6443"),
        ("TARGET_SERVER", "https://"),
        ("TARGET_SERVER", "https://a:b@10.0.0.5"),
        ("TARGET_SERVER", "https://10.0.0.5:x"),
        ("TARGET_SERVER", "https://10.0.0.5?a=b"),
        ("CLIENT_CA_FILE", ""),
        ("POD_IP", ""),
    ],
)
def test_an_odd_target_is_refused(name, value, capsys):
    """Above all there is no way without TLS, and none without a registration."""
    with pytest.raises(SystemExit) as ended:
        settings.parse_settings([], {**TARGET, name: value}, "v1")
    assert ended.value.code == 2
    assert "--" in capsys.readouterr().err
