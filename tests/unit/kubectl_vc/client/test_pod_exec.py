"""Ends of a command in a pod: success, failure with its reason, and a cut connection."""

import pytest

from kubectl_vc.client import pod_exec
from kubectl_vc.client.pod_exec import ExecInterruptedError
from kubectl_vc.output.cli_errors import CliError
from kubeio.config.endpoint import Endpoint

SUCCESS, FAILURE = b'{"status":"Success"}', b'{"status":"Failure","message":"code 1"}'


@pytest.mark.parametrize(
    ("status", "problem", "message"),
    [
        (b"", "", "was cut"),
        (b"{", "", "was cut"),
        (FAILURE, "", "it: code 1"),
        (FAILURE, "Traceback\nlast line", "it: last line"),
        (FAILURE, '{"reason": "VolumeFull", "message": "no room"}', r"it: no room \(VolumeFull\)"),
    ],
)
def test_a_command_that_did_not_succeed_is_explained(status: bytes, problem: str, message: str):
    with pytest.raises(CliError, match=message) as raised:
        pod_exec._check_status("it", status, problem)
    assert isinstance(raised.value, ExecInterruptedError) is (message == "was cut")
    pod_exec._check_status("it", SUCCESS, problem)


def test_the_command_is_in_the_query_of_a_websocket():
    endpoint = Endpoint(server="https://api.example.com:6443/prefix/")
    url = pod_exec._build_url(endpoint, "root", "p", ["a b", "--c=d&e"], has_input=True)
    assert url.startswith("wss://api.example.com:6443/prefix/api/v1/namespaces/root/pods/p/exec?")
    assert "command=a+b&command=--c%3Dd%26e&stdin=true&stdout=true&stderr=true" in url


async def test_a_server_that_is_gone_is_an_interruption():
    endpoint = Endpoint(server="http://127.0.0.1:1", token="t")
    with pytest.raises(ExecInterruptedError, match="was cut"):
        await pod_exec.run_in_pod(endpoint, "root", "p", ["x"], write=lambda _: None)
