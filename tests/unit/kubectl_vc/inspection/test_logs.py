"""Calls of kubectl by `logs`, and the selection of a tenant's lines of the syncer."""

import pytest

from kubectl_vc.inspection.logs import LogOptions, build_selector, build_words, is_about

ROOT = "default-b41df0-web"


def options(component: str = "etcd", **fields) -> LogOptions:
    return LogOptions(
        **{
            "component": component,
            "follow": False,
            "previous": False,
            "tail": -1,
            "since": "",
            "manager_namespace": "vc-manager",
            **fields,
        }
    )


@pytest.mark.parametrize(
    ("component", "selector"),
    [
        ("etcd", "component-name=etcd"),
        ("dns", "component-name=coredns"),
        ("metrics-server", "component-name=metrics-server"),
        ("syncer", "app.kubernetes.io/name=vc-syncer"),
    ],
)
def test_the_pods_of_a_component(component, selector):
    assert build_selector(component) == selector


def test_words_of_kubectl():
    assert build_words("a=b", options()) == [
        *("logs", "--selector=a=b", "--max-log-requests=20", "--tail=-1", "--prefix"),
    ]
    found = build_words("a", options("syncer", follow=True, previous=True, tail=5, since="600s"))
    assert found[3:] == ["--tail=5", "--since=600s", "--follow", "--previous"]


@pytest.mark.parametrize(
    ("line", "is_its_own"),
    [
        (f'{{"tenant": "{ROOT}", "event": "tenant.connected"}}', True),
        (f'{{"key": "{ROOT}-shop/pod-1"}}', True),
        (f"text {ROOT}", True),
        (f'{{"tenant": "{ROOT}2"}}', False),
        (f'{{"tenant": "x-{ROOT}"}}', False),
        ('{"tenant": "default-a00000-web"}', False),
        ("", False),
    ],
)
def test_only_lines_that_name_the_tenant_are_shown(line, is_its_own):
    assert is_about(line, ROOT) is is_its_own
