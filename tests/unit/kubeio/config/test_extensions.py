"""Records of `kubectl vc connect` in a context, read from a user's file."""

import pytest

from kubeio.config import extensions, loading

CONNECTED = """
contexts:
- name: vc
  context:
    cluster: vc
    user: vc
    extensions:
    - name: other
      extension: {a: 1}
    - name: kubectl-vc
      extension: {superContext: home}
- {name: home, context: {cluster: a}}
current-context: %s
"""


@pytest.mark.parametrize(("current", "found"), [("vc", {"superContext": "home"}), ("home", None)])
def test_the_record_of_the_current_context(current, found, tmp_path):
    path = tmp_path / "config"
    path.write_text(CONNECTED % current)
    assert loading.get_current_context(str(path)) == current
    assert loading.get_connection(str(path)) == found


def test_a_file_without_a_current_context_has_no_record(tmp_path):
    path = tmp_path / "config"
    path.write_text("kind: Config")
    assert loading.get_connection(str(path)) is None
    assert loading.get_current_context(str(path)) == ""


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        (None, None),
        ("text", None),
        (["text"], None),
        ([{"name": "kubectl-vc"}], {}),
        ([{"name": "kubectl-vc", "extension": "text"}], {}),
    ],
)
def test_extensions_of_a_wrong_shape(listed, found):
    assert extensions.read_extension({"extensions": listed}) == found


def test_a_changed_file_is_read_again(tmp_path):
    path = tmp_path / "config"
    for name in ("one", "two"):
        path.write_text(f"contexts: [{{name: {name}, context: {{}}}}]\ncurrent-context: {name}")
        assert loading.list_contexts(str(path)) == [name]
