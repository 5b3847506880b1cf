"""Paths of fields in a SyncRule."""

import pytest

from tenancy.specs import InvalidSpecError
from tests.unit.tenancy.sync_rules.test_checks import build_rule


@pytest.mark.parametrize("path", ["", "spec..a", "spec.*.a", "**", "spec.a[0]", "spec.a b"])
def test_a_path_that_is_none_is_refused(path):
    with pytest.raises(InvalidSpecError):
        build_rule(fields=[path])


def test_contradicting_paths_are_refused():
    for paths in (["spec.a", "spec.a.b"], ["spec.a[].b", "spec.a.c"], ["spec.a.b", "spec.a.**"]):
        with pytest.raises(InvalidSpecError, match="contradicts"):
            build_rule(fields=paths)
