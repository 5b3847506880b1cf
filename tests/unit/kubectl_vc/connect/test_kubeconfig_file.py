"""The user's file: chosen and locked as by kubectl, written whole and private."""

import stat

import pytest

from kubectl_vc.connect import kubeconfig_file
from kubectl_vc.output.cli_errors import CliError


def test_the_file_with_the_current_context_is_changed(tmp_path, monkeypatch):
    for name, content in (("a", "kind: Config"), ("b", "current-context: x"), ("c", "")):
        (tmp_path / name).write_text(content)
    paths = [tmp_path / name for name in "zabc"]
    monkeypatch.setenv("KUBECONFIG", ":".join(map(str, paths)))
    assert kubeconfig_file.list_paths("") == paths
    assert kubeconfig_file.choose_path("") == tmp_path / "b"
    (tmp_path / "b").unlink()
    assert kubeconfig_file.choose_path("") == tmp_path / "a"
    assert kubeconfig_file.choose_path(str(tmp_path / "q")) == tmp_path / "q"


def test_a_change_is_private_and_follows_links(tmp_path):
    real, link = tmp_path / "real", tmp_path / "config"
    real.write_text("kind: Config\nmine: [1]\n")
    real.chmod(0o644)
    link.symlink_to(real)
    kubeconfig_file.change(link, lambda document: {**document, "added": True})
    assert link.is_symlink()
    assert kubeconfig_file.read_document(link) == {"kind": "Config", "mine": [1], "added": True}
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    assert {each.name for each in tmp_path.iterdir()} == {"real", "config"}


def test_a_missing_file_is_created_with_its_folder(tmp_path):
    path = tmp_path / "kube" / "config"
    kubeconfig_file.change(path, lambda document: {**document, "kind": "Config"})
    assert kubeconfig_file.read_document(path) == {"kind": "Config"}


def test_a_lock_of_another_program_is_waited_for_and_named(tmp_path, monkeypatch):
    monkeypatch.setattr(kubeconfig_file, "_LOCK_SECONDS", 0.1)
    path = tmp_path / "config"
    path.write_text("kind: Config")
    (tmp_path / "config.lock").touch()
    with pytest.raises(CliError, match=r"is locked by another program\. If no kubectl runs"):
        kubeconfig_file.change(path, lambda _: {})
    assert path.read_text() == "kind: Config"


@pytest.mark.parametrize("content", ["a: [", "- x", "a: &b [1]\nc: *b", "clusters: 5"])
def test_a_file_that_cannot_be_read_is_not_replaced(tmp_path, content):
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(CliError, match="The file was not changed"):
        kubeconfig_file.change(path, lambda _: {"new": 1})
    assert path.read_text() == content
    assert not (tmp_path / "config.lock").exists()
