"""Verbs that find a cause: what they load, and what they leave alone."""

import json
import subprocess
import sys

import pytest


def list_loaded(*words: str) -> set[str]:
    """Return the modules that a command loads."""
    script = (
        "import sys, json, kubectl_vc.app as a\n"
        f"sys.argv = ['kubectl-vc', *{list(words)!r}]\n"
        "try: a.main()\n"
        "except SystemExit: pass\n"
        "print('\\n' + json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("words", [("version", "--client"), ("why", "-h"), ("policy", "-h")])
def test_other_verbs_and_help_load_no_diagnosis_and_no_syncer(words):
    loaded = list_loaded(*words)
    assert not {each.partition(".")[0] for each in loaded} & {"syncer", "msgspec", "aiohttp"}
    parts = {each.split(".")[1] for each in loaded if each.startswith("kubectl_vc.")}
    assert not parts & {"debug", "diagnosis", "installation", "policy"}


def test_only_policy_check_loads_the_syncer():
    assert "syncer" not in list_loaded("why", "pod/web", "--kubeconfig", "/none")
    assert "syncer" not in list_loaded("doctor", "--kubeconfig", "/none")
    loaded = list_loaded("policy", "check", "-f", "/none")
    assert "syncer.rules" in loaded
    parts = {each.split(".")[1] for each in loaded if each.startswith("syncer.")}
    assert parts == {"model", "rules"}
