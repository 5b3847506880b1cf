"""Calls of list, get, describe, events and logs that no server is asked about."""

import pytest

from tests.support.kubectl_vc.command_runner import assert_usage_error


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("get", "a", "b"), 'unexpected argument "b".'),
        (("get", "web", "-l", "a=b"), "NAME and -l cannot be used together"),
        (("get", "-o", "jsonpath"), "jsonpath needs a template. Write jsonpath=TEMPLATE"),
        (("get", "-o", "json=x"), "must be one of table, wide, json, yaml, name"),
        (("list", "-owide=x"), "must be one of table"),
        (("list", "web"), 'unexpected argument "web".'),
        (("describe",), "NAME is missing"),
        (("describe", ""), "NAME is empty. Enter a name."),
        (("events",), "NAME is missing"),
        (("events", "web", "x"), 'unexpected argument "x".'),
        (("logs",), "NAME is missing"),
        (("logs", "web", "--tail=-2"), "must be a whole number from -1"),
        (("logs", "web", "--tail", "many"), "must be a whole number from -1"),
        (("logs", "web", "--since", "0s"), "must be 1 s or longer"),
        (("logs", "web", "--since", "yesterday"), "Write it like 90s"),
        (("logs", "web", "--component", "scheduler"), "must be one of etcd, apiserver"),
        (("logs", "web", "-fx"), "unknown shorthand flag: 'x' in -fx."),
    ],
    ids=lambda each: " ".join(each)[:40],
)
def test_bad_input_ends_with_2_and_a_clear_sentence(words, told, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert_usage_error(words, told)
