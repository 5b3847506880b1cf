"""Modules that a verb imports: only those that it needs, because each delays its answer."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
from kubectl_vc.app import main
sys.argv = ["kubectl-vc", *sys.argv[1:]]
try: main()
except SystemExit: pass
print("\\n" + " ".join(sorted(sys.modules)), file=sys.stderr)
"""
HEAVY = {
    *("asyncio", "aiohttp", "rich", "yaml", "kubernetes", "msgspec", "ssl", "typer"),
    *("jinja2", "pydantic", "prometheus_client", "cryptography", "structlog", "subprocess"),
}
CALL = ("--kubeconfig", "{config}", "--request-timeout", "100ms", "-n", "default")
NEVER = {
    "aiohttp",
    "rich",
    "kubernetes",
    "pydantic",
    "typer",
    "kopf",
    "jinja2",
    "prometheus_client",
}
CONFIG = (
    "clusters: [{name: a, cluster: {server: 'https://127.0.0.1:9'}}]\n"
    "users: [{name: a, user: {token: x}}]\n"
    "contexts: [{name: a, context: {cluster: a, user: a}}]\n"
    "current-context: a\n"
)


def imported(*words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words], capture_output=True, text=True, check=True
    )
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("create", "--help"),
        ("connect", "-h"),
        ("help", "logs"),
        ("target", "join", "-h"),
        ("certs", "--help"),
        ("ui", "--help"),
        ("options",),
        ("get", "--nonsense"),
    ],
    ids=" ".join,
)
def test_help_and_wrong_calls_load_nothing_heavy(words):
    assert not imported(*words) & HEAVY


@pytest.mark.parametrize(
    ("words", "needless"),
    [
        (("list",), {"cryptography"}),
        (("get", "web"), {"cryptography"}),
        (("describe", "web"), {"cryptography"}),
        (("events", "web"), {"cryptography"}),
        (("logs", "web"), {"cryptography"}),
        (("delete", "web", "--yes"), {"cryptography"}),
        (("connect", "web"), {"cryptography"}),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_a_call_loads_what_it_needs(words, needless, tmp_path):
    path = tmp_path / "config"
    path.write_text(CONFIG)
    call = [each.format(config=path) for each in CALL]
    found = imported(*words, *call)
    assert "kubeio.http.rest" in found, "the verb has tried to connect"
    assert not found & (NEVER | needless)


def test_a_check_of_a_file_loads_no_client_and_no_logs(tmp_path):
    path = tmp_path / "pod.yaml"
    path.write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
    found = imported("policy", "check", "-f", str(path))
    assert "kubectl_vc.policy.decision" in found, "the verb has decided"
    needless = {"structlog", "kubeio.api.client", "kubeio.http.rest", "urllib.request"}
    assert not found & (NEVER | needless)
