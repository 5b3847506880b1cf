"""Standard streams that the caller closed, filled, or stopped to read."""

import subprocess
import sys

import pytest

VC = "import sys; sys.argv[0] = 'kubectl-vc'; from kubectl_vc.app import main; main()"
COMPLETION = "from kubectl_vc.completion import main; main()"
POD = "kind: Pod\nspec: {hostNetwork: true, containers: []}\n"
CHECK = "policy check -f -"


def call(redirection: str, words: str, program: str = VC) -> subprocess.CompletedProcess[str]:
    script = redirection.format(run=f'{sys.executable} -c "$PROGRAM" {words}')
    return subprocess.run(
        ["bash", "-c", script],
        check=False,
        env={"PROGRAM": program, "PATH": "/usr/bin:/bin", "KUBECONFIG": "/nosuch"},
        input=POD,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("words", ["--help", "options", "completion bash", CHECK])
def test_a_reader_that_ended_gets_the_exit_code_of_sigpipe_and_no_message(words):
    done = call("{run} | true; exit ${{PIPESTATUS[0]}}", words)
    assert (done.returncode, done.stderr) in ((141, ""), (0, ""))  # 0: it was written before


@pytest.mark.parametrize("words", ["--version", "--help", "options", "completion bash", CHECK])
def test_a_full_disk_is_one_sentence(words):
    done = call("{run} >/dev/full", words)
    assert done.returncode == 1
    assert done.stderr == "error: the output cannot be written: No space left on device.\n"


@pytest.mark.parametrize(("words", "code"), [("--help", 0), ("options", 0), (CHECK, 1)])
def test_a_closed_output_loses_the_result_only(words, code):
    done = call("{run} >&-", words)
    assert done.returncode == code
    assert "Traceback" not in done.stderr


def test_closed_streams_keep_their_numbers_from_files():
    check = "from kubectl_vc.output.streams import prepare_streams; prepare_streams(); import os;"
    done = call("{run} <&- >&-", "", f"{check} f = os.open('/dev/zero', 0); raise SystemExit(f)")
    assert done.returncode == 3, done.stderr


def test_a_closed_error_stream_keeps_the_exit_code():
    assert call("{run} 2>&-", "list").returncode == 1
    assert call("{run} 2>/dev/full", "list").returncode == 1


def test_a_closed_input_has_no_manifest():
    done = call("{run} <&-", "create -f - --no-wait")
    assert done.returncode == 1
    assert done.stderr.startswith("error: standard input has no VirtualCluster.")


def test_completion_is_silent_about_its_output():
    done = call("{run} >/dev/full", "li", COMPLETION)
    assert (done.returncode, done.stderr) == (0, "")
