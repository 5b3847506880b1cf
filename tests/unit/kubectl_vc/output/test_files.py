import stat

import pytest

from kubectl_vc.output import files
from kubectl_vc.output.cli_errors import CliError


def test_only_the_owner_can_read_the_file_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "vc.kubeconfig"
    files.write_private(path, b"secret", force=False)
    assert path.read_bytes() == b"secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["vc.kubeconfig"]


def test_a_file_that_is_there_stays_as_it_is(tmp_path):
    path = tmp_path / "vc.kubeconfig"
    path.write_bytes(b"mine")
    with pytest.raises(CliError, match="exists already\\. Give -o another path, or --force"):
        files.write_private(path, b"secret", force=False)
    assert path.read_bytes() == b"mine"
    assert [each.name for each in tmp_path.iterdir()] == ["vc.kubeconfig"]


def test_force_replaces_a_file_and_its_mode(tmp_path):
    path = tmp_path / "vc.kubeconfig"
    path.write_bytes(b"mine")
    path.chmod(0o644)
    files.write_private(path, b"secret", force=True)
    assert path.read_bytes() == b"secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_dangling_link_counts_as_a_file_that_is_there(tmp_path):
    path = tmp_path / "vc.kubeconfig"
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CliError, match="exists already"):
        files.check_writable(path, force=False)
    with pytest.raises(CliError, match="exists already"):
        files.write_private(path, b"secret", force=False)
    assert not (tmp_path / "elsewhere").exists()


def test_what_could_not_be_written_at_the_end_is_refused_at_the_beginning(tmp_path):
    with pytest.raises(CliError, match="is a directory"):
        files.check_writable(tmp_path, force=False)
    with pytest.raises(CliError, match="does not exist\\. Create it first"):
        files.check_writable(tmp_path / "no" / "vc.kubeconfig", force=False)
    taken = tmp_path / "taken"
    taken.touch()
    with pytest.raises(CliError, match="exists already"):
        files.check_writable(taken, force=False)
    files.check_writable(taken, force=True)
    files.check_writable(tmp_path / "free", force=False)
