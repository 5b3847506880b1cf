import pytest

from kubectl_vc.client import kubectl_process
from kubectl_vc.client.config_flags import ConfigFlags
from kubectl_vc.output.cli_errors import CliError


def test_kubectl_gets_the_flags_of_the_connection(monkeypatch, tmp_path):
    program = tmp_path / "kubectl"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert kubectl_process.build_command(ConfigFlags(), "") == (str(program),)
    access = ConfigFlags(kubeconfig="k", as_user="ann", as_groups=("a", "b"))
    assert kubectl_process.build_command(access, "home")[1:] == (
        f"--kubeconfig={tmp_path}/k",
        *("--context=home", "--as=ann", "--as-group=a", "--as-group=b"),
    )


def test_without_kubectl_the_error_names_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CliError, match="kubectl was not found in PATH"):
        kubectl_process.build_command(ConfigFlags(), "home")
