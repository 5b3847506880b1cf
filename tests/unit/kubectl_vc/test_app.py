import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kubectl_vc
from kubectl_vc import target
from kubectl_vc.app import app
from kubectl_vc.output import durations
from kubectl_vc.verbs import version
from kubeio.http import rest
from tests.support.kubectl_vc.command_runner import invoke
from tools.testbed.artifacts import product


def test_help_speaks_of_kubectl_vc_and_names_every_verb():
    done = invoke("--help")
    assert done.exit_code == 0
    assert "Usage:\n  kubectl vc COMMAND [options]" in done.output
    named = ("create", "list", "get", "kubeconfig", "delete", "undelete", "confirm-deletes")
    for verb in (*named, "version"):
        assert f"  {verb} " in done.output
    assert "..." not in done.output.partition("Available Commands:")[2]


LOCAL = {("options",), ("completion",)}
"""Verbs that connect to no server."""
VERBS = {words: command for words, command in app.iterate_verbs() if words not in LOCAL}
CONNECTION = ("--kubeconfig", "--context", "--as", "--as-group", "--request-timeout")
IN_NO_NAMESPACE = {words for words in VERBS if words[0] == "target"} | {("version",)}
"""Verbs about SuperClusters or about the cluster itself."""


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_every_verb_takes_the_flags_of_the_connection(words):
    done = invoke(*words, "-h")
    accepted = {spelling for flag in VERBS[words].flags for spelling in flag.spellings}
    assert {*CONNECTION, "--namespace", "-n"} <= accepted
    assert 'Use "kubectl vc options" for the flags of the connection' in done.output
    assert all(flag in invoke("options").output for flag in CONNECTION)
    assert ("--namespace" in done.output) is (words not in IN_NO_NAMESPACE)
    assert ("of the VirtualCluster" in done.output) <= (words not in IN_NO_NAMESPACE)


def test_the_verbs_without_a_namespace_read_none():
    """As kubectl does, they accept the flag."""
    for module in (target, version):
        where = Path(module.__file__)
        for path in [where] if where.name == "version.py" else where.parent.glob("*.py"):
            assert "connection.namespace" not in path.read_text(), path


def test_the_unused_namespace_is_accepted(monkeypatch):
    assert invoke("version", "--client", "-n", "x").exit_code == 0
    assert invoke("target", "list", "-n", "x", "--kubeconfig", "/none").exit_code == 1


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_a_default_that_a_help_names_is_the_default(words):
    """`target join` said 5m while its default was 1m."""
    for option in VERBS[words].flags:
        name = option.name
        said = re.search(r"\(default (\w+)\)", option.option.help)
        if name == "request_timeout":
            assert said
            assert (option.default, durations.parse_duration(said[1])) == (
                0,
                rest.DEFAULT_DEADLINE_SECONDS,
            )
        elif said:
            assert durations.parse_duration(said[1]) == option.default
        else:
            assert name != "timeout"


def strings(tree: ast.AST) -> Iterator[str]:
    """Yield the literals of a module that are no docstrings."""
    documented = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in documented:
            yield str(node.value)


def test_no_message_names_a_path_of_a_checkout():
    """The command line works without the repository."""
    top = Path(kubectl_vc.__file__).parent
    folders = {each.name for each in product.REPOSITORY.iterdir() if each.is_dir()}
    path = re.compile(rf"(?<![\w./-])({'|'.join(map(re.escape, folders))})/\w")
    assert path.search("helm install virtual-cluster charts/virtual-cluster")
    for module in sorted(top.rglob("*.py")):
        found = [each for each in strings(ast.parse(module.read_text())) if path.search(each)]
        assert not found, f"{module.name}: {found}"


def test_the_version_is_that_of_the_package():
    assert invoke("--version").output == f"kubectl-vc version {version.get_own_version()}\n"
    assert (
        invoke("version", "--client").output == f"kubectl-vc version {version.get_own_version()}\n"
    )


@pytest.mark.parametrize(
    "words",
    [
        ("create", "", "-f", "x", "-o", "y"),
        ("create", "", "--cluster-version", "v"),
        ("get", ""),
        ("get", "", "-A"),
        ("kubeconfig", ""),
        ("delete", "", "--ignore-not-found"),
        ("undelete", ""),
        ("confirm-deletes", ""),
        ("target", "join", "", "--target-context", "x"),
        ("target", "doctor", ""),
        ("target", "leave", ""),
    ],
)
def test_an_empty_name_is_no_name_and_not_all(words, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    done = invoke(*words)
    assert done.stderr.startswith("error: NAME is empty. Enter "), done.stderr
    assert (done.exit_code, done.stdout) == (2, "")


@pytest.mark.parametrize(
    ("stdin", "told"),
    [
        ("kind: [", "standard input is not YAML or JSON: line 1, column 8"),
        ("apiVersion: v1\nkind: Pod", "an object of kind Pod. Only a VirtualCluster"),
    ],
)
def test_bad_input_ends_with_1_before_any_server_is_asked(stdin, told, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    target = tmp_path / "vc.kubeconfig"
    done = invoke("create", "-f", "-", "-o", str(target), stdin=stdin)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert told in done.stderr
    assert not target.exists()


def test_the_verbs_of_targets_take_the_flags_of_the_connection():
    for verb in ("join", "list", "doctor", "confirm", "leave"):
        found = {each.long for each in VERBS["target", verb].flags}
        assert {"--kubeconfig", "--context", "--as"} <= found


def test_a_kubeconfig_that_is_there_is_refused_before_any_server_is_asked(monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    target = tmp_path / "vc.kubeconfig"
    target.write_text("mine")
    for words in (("create", "web", "--cluster-version", "v1.36"), ("kubeconfig", "web")):
        done = invoke(*words, "-o", str(target))
        assert done.exit_code == 1
        assert f"{target} exists already" in done.stderr
    assert target.read_text() == "mine"


def test_no_kubeconfig_at_all_is_reported_with_the_remedy(monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    done = invoke("list")
    assert done.exit_code == 1
    assert "kubeconfig. Use --kubeconfig FILE, set KUBECONFIG" in done.stderr


def test_groups_without_a_verb_print_their_help():
    """As `kubectl` and `kubectl config` do."""
    for words in ((), ("target",), ("help", "target"), ("target", "--help")):
        done = invoke(*words)
        assert (done.exit_code, done.stderr) == (0, "")
        assert "Available Commands:" in done.stdout
    assert invoke("help", "get").stdout == invoke("get", "-h").stdout


def test_help_needs_neither_client_nor_drawing():
    """Modules that `--help` loads delay each call. The client alone takes a third of a second."""
    script = (
        "import sys, json, kubectl_vc.app as a\n"
        "sys.argv = ['kubectl-vc', '--help']\n"
        "try: a.main()\n"
        "except SystemExit: pass\n"
        "print('\\n' + json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert not loaded & {"aiohttp", "rich", "yaml", "kubernetes", "msgspec", "asyncssh", "typer"}
