"""Documents that are no kubeconfig."""

from __future__ import annotations

import pytest

from kubeio.config import kubeconfig, loading
from kubeio.errors import CredentialsError


def test_tags_are_not_followed(tmp_path):
    bomb = f"!!python/object/apply:os.mkdir ['{tmp_path}/made']".encode()
    with pytest.raises(CredentialsError, match="not the YAML"):
        kubeconfig.parse_kubeconfig(bomb)
    assert not (tmp_path / "made").exists()


def test_aliases_are_not_followed():
    with pytest.raises(CredentialsError, match="not the YAML"):
        kubeconfig.parse_kubeconfig(b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n")


def test_deep_nesting_is_a_sentence():
    with pytest.raises(CredentialsError, match="not the YAML"):
        kubeconfig.parse_kubeconfig(b"[" * 50_000)


def test_two_documents_are_refused():
    with pytest.raises(CredentialsError, match="not the YAML of one document"):
        kubeconfig.parse_kubeconfig(b"kind: Config\n---\nkind: Config\n")


def test_size_is_limited():
    with pytest.raises(CredentialsError, match="the limit is 262144"):
        kubeconfig.parse_kubeconfig(b" " * (kubeconfig.MAX_KUBECONFIG + 1))


def test_broken_yaml_does_not_show_its_text():
    with pytest.raises(CredentialsError) as caught:
        kubeconfig.parse_kubeconfig(b"client-key-data: {topsecret: [")
    assert "topsecret" not in str(caught.value)


@pytest.mark.parametrize("value", ["2026-13-45", "{[a]: b}", "0b", "!!int x"])
def test_a_value_that_yaml_itself_cannot_make_is_a_sentence(value):
    with pytest.raises(CredentialsError):
        loading.load_tenant_kubeconfig(f"current-context: {value}".encode())
