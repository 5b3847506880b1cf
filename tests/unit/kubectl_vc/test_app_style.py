"""Help and errors of each verb, beside the habits of kubectl."""

import re

import pytest

from kubectl_vc.app import app
from kubectl_vc.commandline.commands import Command
from kubectl_vc.commandline.help_text import WIDTH
from tests.support.kubectl_vc.command_runner import invoke

VERBS: dict[tuple[str, ...], Command] = dict(app.iterate_verbs())
OWN_LETTERS = {
    ("create", "-o"): "kept for scripts: the path of the kubeconfig",
    ("kubeconfig", "-o"): "kept for scripts: the path of the kubeconfig",
}
KUBECTL_LETTERS = {
    "-A": "--all-namespaces",
    "-f": ("--filename", "--follow"),
    "-l": "--selector",
    "-n": "--namespace",
    "-o": "--output",
    "-p": "--previous",
    "-v": "--v",
    "-w": "--watch",
    "-y": "--yes",  # kubectl asks only with --interactive, so it has no such flag
}
"""Shorthands, with the only flags that kubectl uses them for."""


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_each_help_has_the_parts_of_kubectls(words):
    done = invoke(*words, "--help")
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"[A-Z].*[a-z]\.", lines[0]), "a sentence comes first"
    assert max(map(len, lines)) <= WIDTH
    heads = [line for line in lines if re.fullmatch(r"[A-Z][a-z]+:", line)]
    assert heads == [each for each in ("Examples:", "Options:", "Usage:") if each in heads]
    assert heads[-1] == "Usage:"
    usage = lines[lines.index("Usage:") + 1]
    assert usage.startswith(f"  kubectl vc {' '.join(words)} ")
    assert usage.removesuffix(" [-- COMMAND]").endswith("[options]")
    for line in lines:
        assert "{" not in line or "jsonpath" in line
        assert "<str>" not in line


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_shorthands_mean_what_they_mean_in_kubectl(words):
    for flag in VERBS[words].flags:
        if flag.short and (words[-1], flag.short) not in OWN_LETTERS:
            assert flag.long in KUBECTL_LETTERS[flag.short], flag.title


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_the_help_of_a_flag_is_one_phrase(words):
    for flag in VERBS[words].flags:
        if not flag.option.hidden:
            assert re.match(r"[A-Zk].{5,}[^.]$|[A-Zk].*\. .*", flag.option.help), flag.long


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_examples_can_be_parsed(words):
    from kubectl_vc.commandline import parsing  # noqa: PLC0415

    for example in VERBS[words].examples:
        found = re.search(r"kubectl vc ([^|>)]*)", example)
        if found is None:
            continue
        selected = parsing.select_command(app, found[1].split())
        assert selected.path == words
        assert parsing.parse_words(VERBS[words], selected.words)


WRONG = {
    ("--nonsense",): "unknown flag: --nonsense.",
    ("--namespac", "x"): "unknown flag: --namespac. Did you mean --namespace?",
    ("-Z",): "unknown shorthand flag: 'Z' in -Z.",
    ("--namespace",): "flag needs an argument: --namespace.",
    ("-n",): "flag needs an argument: 'n' in -n.",
    ("--request-timeout", "soon"): (
        'invalid argument "soon" for "--request-timeout" flag: \'soon\' is not a time.'
    ),
}
"""What each verb with a connection must say, with kubectl's words first."""


@pytest.mark.parametrize("wrong", WRONG, ids=" ".join)
@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_a_wrong_flag_is_one_sentence_with_a_remedy(words, wrong):
    if not any(flag.name == "access" or flag.long == "--context" for flag in VERBS[words].flags):
        pytest.skip("it has no connection")
    done = invoke(*words, *wrong)
    first, second = done.stderr.splitlines()
    assert first.startswith(f"error: {WRONG[wrong]}"), first
    assert second == f"See 'kubectl vc {' '.join(words)} --help' for usage."
    assert (done.exit_code, done.stdout) == (2, "")


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_each_switch_takes_true_and_false_after_an_equals_sign(words):
    from kubectl_vc.commandline import parsing  # noqa: PLC0415

    command = VERBS[words]
    names = [each.name for each in command.positionals if each.is_required]
    needed = [f"{each.long}={sample(each)}" for each in command.flags if each.is_required]
    for flag in command.flags:
        if flag.is_switch:
            for text, value in (("=true", True), ("=false", False), ("", True)):
                call = [*names, *needed, f"{flag.long}{text}"]
                assert parsing.parse_words(command, call)[flag.name] is value


def sample(flag) -> str:
    return flag.choices[0] if flag.choices else "x"


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_each_flag_with_few_values_names_them(words):
    command = VERBS[words]
    for flag in command.flags:
        if flag.choices:
            done = invoke(*words, "x", f"{flag.long}=nonsense")
            assert f"must be one of {', '.join(flag.choices)}." in done.stderr, done.stderr
            assert done.exit_code == 2


def test_flags_stand_anywhere(monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    calls = [
        ("--kubeconfig", "/none", "list", "-A"),
        ("list", "-A", "--kubeconfig=/none"),
        ("-A", "list", "--kubeconfig", "/none"),
        ("-n", "x", "-owide", "--kubeconfig", "/none", "get"),
        ("--output", "json", "get", "web", "--kubeconfig", "/none"),
        ("target", "--kubeconfig", "/none", "list"),
    ]
    for words in calls:
        done = invoke(*words)
        assert (done.exit_code, done.stderr) == (
            1,
            "error: /none cannot be read: No such file or directory.\n",
        ), words


def test_the_text_of_an_error_has_no_control_characters():
    done = invoke("get", "a", "b\x1b[2J")
    assert "\x1b" not in done.stderr
