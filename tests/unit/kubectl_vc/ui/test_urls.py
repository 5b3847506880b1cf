"""Each part of a URL stays one part."""

from kubectl_vc.ui.urls import Urls

URLS = Urls("/abc/")


def test_hostile_parts_are_quoted():
    assert URLS.build_tenant("../x", 'a"b?c#d') == "/abc/t/..%2Fx/a%22b%3Fc%23d"
    found = URLS.build_namespace("a", "b", "c/d", kind="pods", **{"continue": "&part=live"})
    assert found == "/abc/t/a/b/n/c%2Fd?kind=pods&continue=%26part%3Dlive"
    assert URLS.build_pod("a", "b", "c", "javascript:x") == "/abc/t/a/b/n/c/pods/javascript%3Ax"
    assert URLS.build_static("../../x") == "/abc/static/..%2F..%2Fx"


def test_empty_parameters_are_left_out():
    assert URLS.build_tenants(part="", pause="1") == "/abc/?pause=1"
