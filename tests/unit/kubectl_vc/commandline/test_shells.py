"""Scripts of shells: those of the installed shells are parsed by them."""

import shutil
import subprocess

import pytest

from kubectl_vc.commandline import shells


@pytest.mark.parametrize("shell", shells.SCRIPTS)
def test_a_script_is_correct_and_calls_the_program(shell):
    script = shells.SCRIPTS[shell]
    assert "kubectl_complete-vc" in script
    assert f"kubectl completion {shell}" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script.encode(), check=True)


def test_bash_offers_what_the_program_prints(tmp_path):
    program = tmp_path / "kubectl_complete-vc"
    program.write_text('#!/bin/sh\nprintf "%b\\n" "web\\tthe web" "shop-$2" ":4"\n')
    program.chmod(0o755)
    check = (
        'COMP_WORDS=(kubectl-vc get ""); COMP_CWORD=2; __start_kubectl() { :; }\n'
        + shells.BASH
        + '\n_kubectl_vc; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", check],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["web", "shop-"], done.stderr
