"""Bad input of each verb and flag: one sentence, the exit code 2, and no request."""

import pytest

from kubectl_vc.app import app
from tests.support.kubectl_vc.bad_calls import BAD_CALLS, UNKNOWN_VERBS
from tests.support.kubectl_vc.command_runner import assert_usage_error, invoke

VERBS = dict(app.iterate_verbs())
NUMBERS_AND_TIMES = [
    (words, flag.long)
    for words, command in VERBS.items()
    for flag in command.flags
    if flag.option.parser is not None or flag.kind is int
]


@pytest.mark.parametrize(
    ("words", "told"), [*UNKNOWN_VERBS, *BAD_CALLS], ids=lambda each: " ".join(each)[:40]
)
def test_bad_input_ends_with_2_and_a_clear_sentence(words, told, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert_usage_error(words, told)


@pytest.mark.parametrize("words", sorted({words for words, _ in NUMBERS_AND_TIMES}), ids=" ".join)
def test_each_number_and_time_refuses_other_text(words):
    for long in (long for path, long in NUMBERS_AND_TIMES if path == words):
        for text in ("some", "", "1e3s"):
            done = invoke(*words, f"{long}={text}")
            assert done.stderr.startswith(f'error: invalid argument "{text}" for "'), done.stderr
            assert f"{long}" in done.stderr
            assert (done.exit_code, done.stdout) == (2, "")
