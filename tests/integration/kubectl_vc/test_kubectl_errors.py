"""Errors of `kubectl vc` beside those of kubectl, where both have the same case.

The words of kubectl come first, up to Go's reason, because people and scripts know them. After them
`kubectl vc` has its own reason and remedy. Needs no API server.
"""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.support.kubectl_vc.command_runner import invoke
from tools.testbed.artifacts import binaries

EQUALS = [
    # unknown words
    ("nonsense", "nonsense"),
    ("config nonsense", "target nonsense"),
    ("rollout nonsense", "snapshot nonsense"),
    ("completion tcsh", "completion tcsh"),
    # unknown flags
    ("get --nonsense", "get --nonsense"),
    ("get --nonsense", "list --nonsense"),
    ("create --nonsense", "create --nonsense"),
    ("delete --nonsense", "delete --nonsense"),
    ("describe --nonsense", "describe --nonsense"),
    ("events --nonsense", "events --nonsense"),
    ("exec --nonsense", "exec --nonsense"),
    ("logs --nonsense", "logs --nonsense"),
    ("version --nonsense", "version --nonsense"),
    ("apply --nonsense", "policy check --nonsense"),
    ("scale --nonsense", "sleep --nonsense"),
    ("get -Z", "get -Z"),
    ("exec -Z", "exec -Z"),
    # flags without a value
    ("get --namespace", "get --namespace"),
    ("get -n", "get -n"),
    ("get pods --context", "list --context"),
    ("get pods -o", "list -o"),
    ("create --kubeconfig", "create --kubeconfig"),
    ("create -f", "create -f"),
    ("apply -f", "policy check -f"),
    ("get --server", "target join c2 --server"),
    # wrong values
    ("delete --wait=maybe", "delete --wait=maybe"),
    ("delete --now=maybe", "delete --now=maybe"),
    ("delete --ignore-not-found=x", "delete --ignore-not-found=x"),
    ("delete --timeout=soon", "delete --timeout=soon"),
    ("wait --timeout=soon", "wake --timeout=soon"),
    ("get --watch=x", "get --watch=x"),
    ("get -A=x", "get -A=x"),
    ("events --watch=x", "events --watch=x"),
    ("logs --tail=x", "logs --tail=x"),
    ("logs --since=x", "logs --since=x"),
    ("logs -f=x", "logs -f=x"),
    ("logs --previous=x", "logs --previous=x"),
    ("version --client=x", "version --client=x"),
    ("-v=x get", "-v=x get"),
]
REASONS = (": strconv.", ": time: ")
"""Begin of Go's reason, which kubectl appends."""


def cut_reason(line: str) -> str:
    """Return an error of kubectl up to Go's reason."""
    for reason in REASONS:
        line = line.partition(reason)[0]
    return line.rstrip('."').lower()


@pytest.mark.parametrize(("theirs", "ours"), EQUALS)
def test_an_error_begins_as_that_of_kubectl(theirs: str, ours: str, tmp_path):
    alone = {**os.environ, "KUBECONFIG": str(tmp_path / "none")}
    done = subprocess.run(
        [binaries.path("kubectl"), *theirs.split()],
        capture_output=True,
        text=True,
        check=False,
        env=alone,
    )
    there = cut_reason(done.stderr.splitlines()[0])
    here = invoke(*ours.split(), env={"KUBECONFIG": alone["KUBECONFIG"]})
    assert here.stderr.lower().startswith(there), f"{here.stderr}\nkubectl: {done.stderr}"
    assert len(there.split()) > 3
    assert (done.returncode, here.exit_code) == (1, 2)


def test_the_table_is_about_most_verbs_that_kubectl_has_too():
    assert len(EQUALS) >= 20
    verbs = {ours.split()[0] for _, ours in EQUALS}
    assert {"create", "delete", "describe", "events", "exec", "get", "list", "logs"} <= verbs
