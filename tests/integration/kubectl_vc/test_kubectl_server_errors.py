"""Refusals of a server by `kubectl vc` beside those by kubectl, for the same cause.

Both must have the same facts. `kubectl vc` has the words of kubectl, unless they are of Go or of
HTTP, and adds what to do. A conflict is not here, because no verb writes a version that the user
names. An upgrade that meets one is in the unit tests.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.integration.kubectl_vc.conftest import UserTerminal
from tools.testbed.artifacts import binaries

pytestmark = pytest.mark.integration

CLOSED_PORT = 1
"""Port of loopback on which no program listens."""
KubeconfigChange = Callable[[dict[str, Any], dict[str, Any]], object]
"""Change of the content of the only cluster and of the only user, in place."""


def _dial(server: str) -> KubeconfigChange:
    return lambda cluster, _: cluster.update(server=server)


KUBECONFIGS: dict[str, KubeconfigChange] = {
    "admin": lambda _, __: None,
    "closed": _dial(f"https://127.0.0.1:{CLOSED_PORT}"),
    "unknown": _dial("https://nowhere.invalid:6443"),
    "distrusting": lambda cluster, _: cluster.pop("certificate-authority-data"),
    "stranger": lambda _, user: (user.clear(), user.update(token="nonsense")),
}
"""Kubeconfigs by name. The user `jane` without rights has one more."""


class ErrorPair(NamedTuple):
    """The same failure of both programs. `{n}` is the namespace and `{f}` the folder."""

    kubeconfig: str
    theirs: str
    ours: str
    facts: tuple[str, ...]
    """Words of both programs, in lower case."""
    remedy: str
    """Words of `kubectl vc` only."""
    code: int = 1
    """Exit code of `kubectl vc`. 3 means that a named object is missing."""


RBAC = "ask a platform administrator to run: kubectl create"
PAIRS = (
    # not found
    ErrorPair(
        "admin",
        "get vc gone -n {n}",
        "get gone -n {n}",
        ("gone", "not found"),
        "kubectl vc list",
        3,
    ),
    ErrorPair(
        "admin",
        "describe vc gone -n {n}",
        "describe gone -n {n}",
        ("gone", "not found"),
        "kubectl vc list",
        3,
    ),
    ErrorPair(
        "admin",
        "delete vc gone -n {n}",
        "delete gone --yes -n {n}",
        ("gone", "not found"),
        "kubectl vc list",
        3,
    ),
    ErrorPair(
        "admin",
        "get vcs gone -n {n}",
        "snapshot get gone -n {n}",
        ("gone", "not found"),
        "kubectl vc snapshot list",
        3,
    ),
    ErrorPair(
        "admin",
        "create -f {f}/nowhere.yaml",
        "create -f {f}/nowhere.yaml --no-wait",
        ('namespaces "nowhere" not found',),
        "create it with `kubectl create namespace nowhere`, or choose another with -n",
        3,
    ),
    # forbidden
    ErrorPair(
        "jane",
        "get vc -n {n}",
        "list -n {n}",
        ("jane", "list", "virtualclusters.tenancy.x-k8s.io", "in the namespace", "{n}"),
        f"{RBAC} rolebinding",
    ),
    ErrorPair(
        "jane",
        "get vc web -n {n}",
        "get web -n {n}",
        ("jane", "get", "virtualclusters.tenancy.x-k8s.io", "in the namespace", "{n}"),
        f"{RBAC} rolebinding",
    ),
    ErrorPair(
        "jane",
        "get vc -A",
        "list -A",
        ("jane", "list", "virtualclusters.tenancy.x-k8s.io"),
        f"{RBAC} clusterrolebinding",
    ),
    # the way to the server
    ErrorPair(
        "closed",
        "get vc",
        "list",
        (f"127.0.0.1:{CLOSED_PORT}", "refused"),
        "check --kubeconfig and --context",
    ),
    ErrorPair(
        "unknown",
        "get vc",
        "list",
        ("connect to", "nowhere.invalid"),
        "check --kubeconfig and --context",
    ),
    ErrorPair(
        "distrusting",
        "get vc",
        "list",
        ("certificate",),
        "put the certificate of its ca into certificate-authority-data of the kubeconfig",
    ),
    ErrorPair(
        "stranger",
        "get vc",
        "list",
        ("error: you must be logged in to the server (unauthorized)",),
        "log in again, or choose other credentials with --kubeconfig and --context",
    ),
    ErrorPair(
        "admin",
        "get vc --context nope",
        "list --context nope",
        ("context", "nope"),
        "use --context name, with one of",
    ),
    ErrorPair(
        "admin",
        "get vc --kubeconfig {f}/none",
        "list --kubeconfig {f}/none",
        ("/none", "no such file or directory"),
        "cannot be read",
    ),
    # objects that a server does not take
    ErrorPair(
        "admin",
        "create -f {f}/bad.yaml",
        "create -f {f}/bad.yaml --no-wait",
        (
            'the virtualcluster "bad" is invalid: ',
            'spec.dns: unsupported value: "perhaps": supported values: "managed", "tenant", "none"',
            "spec.pkiexpiredays in body should be greater than or equal to 1",
        ),
        "",
    ),
    ErrorPair(
        "admin",
        "create -f {f}/rule.yaml",
        "create -f {f}/rule.yaml --no-wait",
        (
            'the virtualcluster "bad" is invalid: ',
            "clusterdomain must be a dns name such as cluster.local, without a dot at its ends",
        ),
        "",
    ),
    ErrorPair(
        "admin",
        "create -f {f}/unknown.yaml",
        "create -f {f}/unknown.yaml --no-wait",
        ('strict decoding error: unknown field "spec.clusterdomian"',),
        "",
    ),
    ErrorPair(
        "admin",
        "create -f {f}/web.yaml",
        "create -f {f}/web.yaml --no-wait",
        ('virtualclusters.tenancy.x-k8s.io "web" already exists',),
        "choose another name, or get its kubeconfig with `kubectl vc kubeconfig web -n",
    ),
    ErrorPair(
        "admin",
        "get vc -A -l a=b=c",
        "list -A -l a=b=c",
        ('label selector "a=b=c"', "found '=', expected: ',' or 'end of string'"),
        "write it like tier=gold,zone!=a",
    ),
)


@pytest.fixture
async def prepared(desk: UserTerminal) -> UserTerminal:
    """A person with all kubeconfigs and manifests, and a VirtualCluster `web`."""
    whole = yaml.safe_load(desk.plane.kubeconfig())
    for name, change in KUBECONFIGS.items():
        body = yaml.safe_load(yaml.safe_dump(whole))
        change(body["clusters"][0]["cluster"], body["users"][0]["user"])
        (desk.folder / name).write_text(yaml.safe_dump(body))
    desk.become("jane")
    elsewhere = desk.virtual_cluster("bad")
    elsewhere["metadata"]["namespace"] = "nowhere"
    for name, body in (
        ("nowhere", elsewhere),
        ("bad", desk.virtual_cluster("bad", dns="perhaps", pkiExpireDays=0)),
        ("rule", desk.virtual_cluster("bad", clusterDomain="a..b")),
        ("unknown", desk.virtual_cluster("bad", clusterDomian="a.example")),
        ("web", desk.virtual_cluster("web")),
    ):
        desk.manifest(body, name=f"{name}.yaml")
    await desk.make()
    return desk


def _run_kubectl(kubeconfig: Path, words: list[str]) -> tuple[int, str]:
    done = subprocess.run(
        [binaries.path("kubectl"), *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
    )
    return done.returncode, done.stderr


async def test_a_refusal_has_the_facts_of_kubectl_and_a_remedy(prepared: UserTerminal):
    unequal = {}
    for pair in PAIRS:

        def fill(text: str) -> str:
            return text.format(n=prepared.namespace, f=prepared.folder)

        kubeconfig = prepared.folder / pair.kubeconfig
        prepared.environment["KUBECONFIG"] = str(kubeconfig)
        code, told = _run_kubectl(kubeconfig, fill(pair.theirs).split())
        done = await prepared.run(*fill(pair.ours).split())
        facts = [fill(each) for each in pair.facts]
        is_equal = (
            (code, done.code) == (1, pair.code)
            and not done.out
            and done.err.startswith("error: ")
            and len(done.err.splitlines()) == 1
            and pair.remedy in done.err.lower()
            and all(each in told.lower() and each in done.err.lower() for each in facts)
        )
        if not is_equal:
            unequal[pair.ours] = (code, told[-400:], done.code, done.err)
    assert unequal == {}
