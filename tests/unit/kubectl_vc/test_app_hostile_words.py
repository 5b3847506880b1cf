"""Words of a command line that no author of a verb thought of: each ends in one sentence."""

import os

import pytest

from kubectl_vc import completion
from tests.support.kubectl_vc.command_runner import invoke

CONFIG = (
    "clusters: [{name: a, cluster: {server: 'https://127.0.0.1:9'}}]\n"
    "users: [{name: a, user: {token: x}}]\n"
    "contexts: [{name: a, context: {cluster: a, user: a}}]\n"
    "current-context: a\n"
)
LONG = "a" * 300
NO_HOME = "~nosuchuser/config"
BYTES = os.fsdecode(b"\xff")


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config"
    path.write_text(CONFIG)
    return str(path)


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("get", BYTES), 1, "is not UTF-8 text"),
        (("list", "-l", BYTES), 1, "is not UTF-8 text"),
        (("list", "--as", BYTES), 2, "control character"),
        (("list", "--as", "a\nX: y"), 2, "control character"),
        (("list", "--as", "a", "--as-group", "x\r\ny: z"), 2, "control character"),
        (("create", "web", "-o", LONG), 1, "File name too long"),
        (("snapshot", "export", "s", "-o", LONG), 1, "File name too long"),
        (("snapshot", "export", "s", "-o", ""), 2, "--output is empty"),
        (("kubeconfig", "web", "--role", "view", "--ttl", "9" * 400), 2, "at most 2540400h"),
        (("list", "--request-timeout", "\u0663s"), 2, "is not a time"),
        (("create", "-f", "http://[", "--no-wait"), 1, "is not a usable URL"),
        (("create", "-f", "http://x:abc/", "--no-wait"), 1, "is not a usable URL"),
        (("create", "-f", "http://a b/", "--no-wait"), 1, "is not a usable URL"),
    ],
)
def test_odd_words_are_one_sentence(words, code, text, config):
    done = invoke(*words, env={"KUBECONFIG": config})
    assert done.exit_code == code, done.output
    assert done.stderr.startswith("error: ")
    assert text in done.stderr


@pytest.mark.parametrize("path", [f"/{LONG}", NO_HOME, "/dev/zero"])
@pytest.mark.parametrize("words", [("list",), ("connect", "web"), ("disconnect",)])
def test_an_unusable_kubeconfig_is_one_sentence(path, words):
    done = invoke(*words, env={"KUBECONFIG": path})
    assert done.exit_code == 1
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("path", [f"/{LONG}", NO_HOME, "/dev/zero"])
def test_completion_is_silent_about_an_unusable_kubeconfig(path, monkeypatch, capsys):
    monkeypatch.setenv("KUBECONFIG", path)
    monkeypatch.setattr("sys.argv", ["kubectl_complete-vc", "get", ""])
    completion.main()
    assert capsys.readouterr() == (":4\n", "")


def test_a_device_as_authority_is_not_read_to_its_end(config):
    words = ("target", "join", "t", "--mode", "agent", "--kubelet-ca", "/dev/zero")
    done = invoke(*words, "--target-kubeconfig", config, env={"KUBECONFIG": config})
    assert done.exit_code == 1
    assert "has more than 65536 bytes" in done.stderr


@pytest.mark.parametrize("url", ["http://u:p4ssw0rd@127.0.0.1:1/x", "http://u:p4ssw0rd@[/"])
def test_the_password_of_a_manifest_url_is_not_printed(url):
    done = invoke("create", "-f", url, "--no-wait")
    assert done.exit_code == 1
    assert "p4ssw0rd" not in done.output


def test_the_password_of_a_server_url_is_not_printed(tmp_path):
    path = tmp_path / "config"
    path.write_text(CONFIG.replace("https://", "https://u:p4ssw0rd@"))
    done = invoke("list", env={"KUBECONFIG": str(path)})
    assert done.exit_code == 1
    assert "without a user or a password" in done.stderr
    assert "p4ssw0rd" not in done.output
