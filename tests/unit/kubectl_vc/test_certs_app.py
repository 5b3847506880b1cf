"""Flags of `kubectl vc certs`, as its verbs receive them."""

import pytest

from kubectl_vc.verbs import rotate_authorities
from kubectl_vc.verbs.rotate_authorities import RotateOptions
from tests.support.kubectl_vc.command_runner import invoke


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (
            ["web"],
            RotateOptions(
                name="web", authorities=(), force_drop="", manager_namespace="vc-manager"
            ),
        ),
        (
            ["web", "--authority", "client", "--authority", "etcd"],
            RotateOptions(
                name="web",
                authorities=("client", "etcd"),
                force_drop="",
                manager_namespace="vc-manager",
            ),
        ),
        (
            ["web", "--force-drop", "client"],
            RotateOptions(
                name="web", authorities=(), force_drop="client", manager_namespace="vc-manager"
            ),
        ),
        (
            ["--authority", "agent-client", "--manager-namespace", "x"],
            RotateOptions(
                name="", authorities=("agent-client",), force_drop="", manager_namespace="x"
            ),
        ),
    ],
)
def test_flags_of_rotate_become_options(monkeypatch, words, options):
    got = []

    async def run_rotate(_access, _terminal, given):
        got.append(given)

    monkeypatch.setattr(rotate_authorities, "run_rotate", run_rotate)
    done = invoke("certs", "rotate", *words)
    assert (done.exit_code, got) == (0, [options]), done.output


def test_only_known_authorities_are_accepted():
    done = invoke("certs", "rotate", "web", "--authority", "all")
    assert done.exit_code == 2
