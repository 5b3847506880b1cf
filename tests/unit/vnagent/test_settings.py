"""Flags and the environment."""

from pathlib import Path

import pytest

from vnagent import settings
from vnagent.choice import Wish
from vnagent.origin import Address

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
    given = settings.parse([], CHART, "v1")
    assert (given.listen_host, given.port, given.health_port) == ("10.1.0.7", 10550, 10551)
    assert given.metrics_port == 10552
    assert given.kubelet == Address("10.0.0.1", 10250, "10.0.0.1")
    assert given.api == Address("10.96.0.1", 443, "10.96.0.1")
    assert given.client_authorities_file == Path("/etc/vn-agent/trust/client-ca.crt")
    assert given.token_file == Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
    assert given.log_level == "WARNING"
    assert given.static_certificate is None
    assert (given.node, given.upstream) == ("node-1", Wish.AUTO)


def test_flags_win_over_the_environment():
    """As everywhere."""
    given = settings.parse(
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
        settings.parse([], environment, "v1")
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
        settings.parse(flags, CHART, "v1")
    assert ended.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_the_environment_may_choose_the_way():
    """As the chart does; what it cannot mean ends the program too."""
    assert settings.parse([], {**CHART, "UPSTREAM": "apiserver"}, "v1").upstream is Wish.APISERVER
    with pytest.raises(SystemExit):
        settings.parse([], {**CHART, "UPSTREAM": "insecure"}, "v1")


def test_the_version_is_told(capsys):
    """`--version` ends the program with 0."""
    with pytest.raises(SystemExit) as ended:
        settings.parse(["--version"], {}, "vn-agent v1")
    assert (ended.value.code, capsys.readouterr().out) == (0, "vn-agent v1\n")
