"""Calls of the verbs of targets that no server is asked about."""

import pytest

from tests.support.kubectl_vc.command_runner import invoke


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("home",), "home is the name of the home cluster"),
        (("home",), "home cluster. Choose another name"),
        (("No_Name",), "is not a valid name of a SuperCluster"),
        (("x-",), "'x-' is not a valid name of a SuperCluster. Use at most 56"),
        (("x-",), "beginning and ending with a letter or digit"),
        (("c2", "--label", "x"), "--label 'x' is not KEY=VALUE"),
        (("c2", "--taint", "x"), "is not KEY[=VALUE]:EFFECT with one of NoSchedule"),
        (("c2", "--taint", "x:Sometimes"), "is not KEY[=VALUE]:EFFECT"),
        (("c2", "--kubelet-ca", "/none"), "--kubelet-ca /none cannot be read: No such file"),
        (("c2", "--kubelet-ca", __file__), "has no certificates in PEM"),
    ],
)
def test_a_target_that_cannot_be_one_is_refused_before_any_server_is_asked(words, told):
    done = invoke("target", "join", *words, "--target-context", "x", "--kubeconfig", "/none")
    assert (done.exit_code, told in done.stderr) == (1, True), done.stderr


def test_home_cannot_leave():
    done = invoke("target", "leave", "home", "--kubeconfig", "/none")
    assert (done.exit_code, "home cluster. It cannot leave" in done.stderr) == (1, True), (
        done.stderr
    )
