"""Rights that SyncRules need."""

from tenancy.sync_rules.rights import build_super_rules, build_tenant_rules
from tests.unit.tenancy.sync_rules.test_checks import build_rule


def test_rights_are_those_of_the_ruled_kinds_alone():
    down, mirror = build_rule(), build_rule("gws", direction="Mirror")
    assert {tuple(each["apiGroups"]) for each in build_super_rules([down])} == {
        ("example.io",),
        ("apiextensions.k8s.io",),
    }
    assert build_super_rules([mirror])[0]["verbs"] == ["get", "list", "watch"]
    assert build_tenant_rules([down])[0]["verbs"] == ["get", "list", "watch"]
    assert build_super_rules([]) == []
