import pytest

from kubectl_vc import completion
from kubectl_vc.completion import CursorPosition, WordKind

KNOWN = completion.list_verbs()


def test_the_verbs_come_from_the_command_line_itself():
    assert set(KNOWN) == {
        *("create", "list", "get", "kubeconfig", "delete", "undelete", "confirm-deletes"),
        "confirm-start",
        *("version", "target", "certs", "audit", "upgrade", "snapshot", "restore", "sleep", "wake"),
        *("why", "doctor", "policy", "debug", "ui"),
        *("connect", "disconnect", "exec", "describe", "events", "logs"),
        *("options", "completion"),
    }
    assert set(KNOWN["target"].subverbs) == {"join", "list", "doctor", "confirm", "leave"}
    assert KNOWN["get"].takes_name
    assert not KNOWN["create"].takes_name
    assert not KNOWN["list"].takes_name
    assert {"-A", "--all-namespaces", "-h", "--help"} <= KNOWN["list"].switches
    assert "--no-wait" in KNOWN["create"].flags


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([""], WordKind.VERB),
        (["cr"], WordKind.VERB),
        (["--v"], WordKind.FLAG),
        (["nonsense", ""], WordKind.NOTHING),
        (["get", ""], WordKind.NAME),
        (["get", "web", ""], WordKind.NOTHING),
        (["get", "-A", ""], WordKind.NAME),
        (["get", "-n", ""], WordKind.NAMESPACE),
        (["get", "-n", "shop", "we"], WordKind.NAME),
        (["get", "--namespace=shop", "we"], WordKind.NAME),
        (["get", "--"], WordKind.FLAG),
        (["get", "-o", ""], WordKind.CHOICE),
        (["logs", "web", "--component", ""], WordKind.CHOICE),
        (["logs", ""], WordKind.NAME),
        (["describe", ""], WordKind.NAME),
        (["events", "-w", ""], WordKind.NAME),
        (["connect", ""], WordKind.NAME),
        (["connect", "web", "--forward", ""], WordKind.CHOICE),
        (["connect", "web", "--", ""], WordKind.COMMAND),
        (["exec", "web", "--", "kubectl", ""], WordKind.COMMAND),
        (["get", "--", ""], WordKind.NOTHING),
        (["upgrade", "web", "--dry-run", ""], WordKind.NOTHING),
        (["completion", ""], WordKind.SHELL),
        (["create", "-o", ""], WordKind.FILE),
        (["kubeconfig", "web", "-o", ""], WordKind.FILE),
        (["create", "-f", ""], WordKind.FILE),
        (["create", "--kubeconfig", ""], WordKind.FILE),
        (["create", ""], WordKind.NOTHING),
        (["create", "web", "--cluster-version", "v"], WordKind.CLUSTER_VERSION),
        (["list", "--context", ""], WordKind.CONTEXT),
        (["delete", "--no-wait", ""], WordKind.NAME),
        (["delete", "--timeout", ""], WordKind.NOTHING),
    ],
)
def test_the_unfinished_word_is_recognised(words, wanted):
    assert completion.locate_word(words, KNOWN).wanted is wanted


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["target"], WordKind.VERB),
        (["target", ""], WordKind.VERB),
        (["target", "jo"], WordKind.VERB),
        (["target", "join", ""], WordKind.NOTHING),
        (["target", "doctor", ""], WordKind.TARGET),
        (["target", "leave", "c2", ""], WordKind.NOTHING),
        (["target", "leave", "--target-kubeconfig", ""], WordKind.FILE),
        (["target", "join", "--target-context", ""], WordKind.CONTEXT),
        (["target", "join", "--mode", ""], WordKind.CHOICE),
        (["target", "join", "--kubelet-ca", ""], WordKind.FILE),
        (["target", "list", "-o", ""], WordKind.CHOICE),
        (["target", "--"], WordKind.FLAG),
        (["snapshot", "export", "a", "-o", ""], WordKind.FILE),
        (["snapshot", "import", ""], WordKind.FILE),
        (["snapshot", "get", ""], WordKind.SNAPSHOT),
        (["debug", "collect", "-o", ""], WordKind.FILE),
    ],
)
def test_the_words_of_a_group_are_its_own(words, wanted):
    rest, known = completion.enter_group(words, KNOWN)
    place = completion.locate_word(rest, known)
    assert place.wanted is wanted
    if words == ["target", ""]:
        assert dict(completion.list_candidates(place, known)).keys() == known.keys()


def test_flags_before_the_word_report_where_to_look():
    place = completion.locate_word(["get", "-n", "shop", "--kubeconfig=k", ""], KNOWN)
    assert place.values == {"-n": "shop", "--kubeconfig": "k"}


def test_candidates_that_need_no_server():
    for words, value in (
        (["get", "-o", ""], "json"),
        (["get", "--output", ""], "jsonpath="),
        (["logs", "--component", ""], "syncer"),
        (["completion", ""], "fish"),
    ):
        place = completion.locate_word(words, KNOWN)
        assert (value, "") in completion.list_candidates(place, KNOWN)
    of_targets = KNOWN["target"].subverbs
    mode = completion.locate_word(["join", "--mode", ""], of_targets)
    assert ("agent", "") in completion.list_candidates(mode, of_targets)
    assert "create" in dict(completion.list_candidates(CursorPosition(WordKind.VERB), KNOWN))
    assert "--cluster-version" in dict(
        completion.list_candidates(CursorPosition(WordKind.FLAG, "create"), KNOWN)
    )
    assert completion.list_candidates(CursorPosition(WordKind.NAME, "get"), KNOWN) == []


def run(monkeypatch, capsys, *words: str) -> list[str]:
    monkeypatch.setattr("sys.argv", ["kubectl_complete-vc", *words])
    completion.main()
    return capsys.readouterr().out.splitlines()


def test_the_program_speaks_as_kubectl_expects(monkeypatch, capsys):
    lines = run(monkeypatch, capsys, "confirm-d")
    assert lines == [f"confirm-deletes\t{KNOWN['confirm-deletes'].help}", ":4"]
    assert run(monkeypatch, capsys, "create", "-f", "") == [":0"]


def test_a_server_that_cannot_be_asked_gives_no_words_and_no_noise(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert run(monkeypatch, capsys, "get", "") == [":4"]
    assert run(monkeypatch, capsys, "get", "--context", "") == [":4"]


def test_contexts_come_from_the_kubeconfig(monkeypatch, capsys, tmp_path):
    path = tmp_path / "config"
    path.write_text("contexts: [{name: blue}, {name: green}, {name: black}]")
    words = ["get", "--kubeconfig", str(path), "--context", "bl"]
    assert run(monkeypatch, capsys, *words) == ["blue", "black", ":4"]
