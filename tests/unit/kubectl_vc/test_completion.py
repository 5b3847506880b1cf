import pytest

from kubectl_vc import completion
from kubectl_vc.completion import Place, Wanted

KNOWN = completion.verbs()


def test_the_verbs_come_from_the_command_line_itself():
    assert set(KNOWN) == {
        *("create", "list", "get", "kubeconfig", "delete", "confirm-deletes", "version", "target"),
    }
    assert set(KNOWN["target"].inner) == {"join", "list", "doctor", "confirm", "leave"}
    assert KNOWN["get"].takes_name
    assert not KNOWN["create"].takes_name
    assert not KNOWN["list"].takes_name
    assert {"-A", "--all-namespaces", "-h", "--help"} <= KNOWN["list"].switches
    assert "--no-wait" in KNOWN["create"].flags


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([""], Wanted.VERB),
        (["cr"], Wanted.VERB),
        (["--v"], Wanted.FLAG),
        (["nonsense", ""], Wanted.NOTHING),
        (["get", ""], Wanted.NAME),
        (["get", "web", ""], Wanted.NOTHING),
        (["get", "-A", ""], Wanted.NAME),
        (["get", "-n", ""], Wanted.NAMESPACE),
        (["get", "-n", "shop", "we"], Wanted.NAME),
        (["get", "--namespace=shop", "we"], Wanted.NAME),
        (["get", "--"], Wanted.FLAG),
        (["get", "-o", ""], Wanted.FORMAT),
        (["create", "-o", ""], Wanted.FILE),
        (["kubeconfig", "web", "-o", ""], Wanted.FILE),
        (["create", "-f", ""], Wanted.FILE),
        (["create", ""], Wanted.NOTHING),
        (["create", "web", "--cluster-version", "v"], Wanted.CLUSTER_VERSION),
        (["list", "--context", ""], Wanted.CONTEXT),
        (["delete", "--no-wait", ""], Wanted.NAME),
        (["delete", "--timeout", ""], Wanted.NOTHING),
    ],
)
def test_the_unfinished_word_is_recognised(words, wanted):
    assert completion.locate(words, KNOWN).wanted is wanted


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["target"], Wanted.VERB),
        (["target", ""], Wanted.VERB),
        (["target", "jo"], Wanted.VERB),
        (["target", "join", ""], Wanted.NOTHING),
        (["target", "doctor", ""], Wanted.TARGET),
        (["target", "leave", "c2", ""], Wanted.NOTHING),
        (["target", "leave", "--target-kubeconfig", ""], Wanted.FILE),
        (["target", "join", "--target-context", ""], Wanted.CONTEXT),
        (["target", "join", "--mode", ""], Wanted.MODE),
        (["target", "join", "--kubelet-ca", ""], Wanted.FILE),
        (["target", "list", "-o", ""], Wanted.FORMAT),
        (["target", "--"], Wanted.FLAG),
    ],
)
def test_the_words_of_a_group_are_its_own(words, wanted):
    rest, known = completion.within(words, KNOWN)
    place = completion.locate(rest, known)
    assert place.wanted is wanted
    if words == ["target", ""]:
        assert dict(completion.candidates(place, known)).keys() == known.keys()


def test_flags_before_the_word_say_where_to_look():
    place = completion.locate(["get", "-n", "shop", "--kubeconfig=k", ""], KNOWN)
    assert place.values == {"-n": "shop", "--kubeconfig": "k"}


def test_candidates_that_need_no_server():
    assert ("json", "") in completion.candidates(Place(Wanted.FORMAT, "get"), KNOWN)
    assert ("agent", "") in completion.candidates(Place(Wanted.MODE, "join"), KNOWN)
    assert "create" in dict(completion.candidates(Place(Wanted.VERB), KNOWN))
    assert "--cluster-version" in dict(completion.candidates(Place(Wanted.FLAG, "create"), KNOWN))
    assert completion.candidates(Place(Wanted.NAME, "get"), KNOWN) == []


def run(monkeypatch, capsys, *words: str) -> list[str]:
    monkeypatch.setattr("sys.argv", ["kubectl_complete-vc", *words])
    completion.main()
    return capsys.readouterr().out.splitlines()


def test_the_program_speaks_as_kubectl_expects(monkeypatch, capsys):
    lines = run(monkeypatch, capsys, "conf")
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
