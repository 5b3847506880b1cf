"""Calls of connect, exec and disconnect that no server is asked about."""

import pytest

from tests.support.kubectl_vc.command_runner import assert_usage_error


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("connect",), "NAME is missing. Add the name of the VirtualCluster."),
        (("connect", "web", "kubectl"), "A command comes after two hyphens: -- COMMAND."),
        (("connect", "web", "--local-port", "x"), "must be a whole number from 0 to 65535"),
        (("connect", "web", "--local-port", "65536"), "must be a whole number from 0 to 65535"),
        (("connect", "web", "--local-port=-1"), "must be a whole number from 0 to 65535"),
        (("connect", "web", "--"), "COMMAND is missing"),
        (("exec", "web"), "COMMAND is missing. Add it after two hyphens."),
        (("exec", "web", "--"), "COMMAND is missing"),
        (("exec", "--", "true"), "NAME is missing"),
        (("disconnect", "a", "b"), 'unexpected argument "b".'),
    ],
    ids=lambda each: " ".join(each)[:40],
)
def test_bad_input_ends_with_2_and_a_clear_sentence(words, told, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert_usage_error(words, told)
