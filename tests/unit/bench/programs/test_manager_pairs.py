"""Objects that two managers created twice."""

import pytest

from bench.programs.manager_pairs import made_twice
from tests.support.replicas import SentWrite


def attempt(verb: str, resource: str = "secrets", name: str = "root-ca", code: int = 201):
    return SentWrite(verb=verb, resource=resource, namespace="a", name=name, code=code, at=0.0)


@pytest.mark.parametrize(
    ("writes", "twice"),
    [
        ([attempt("create"), attempt("create", name="other")], 0),
        ([attempt("create"), attempt("create")], 1),
        ([attempt("create"), attempt("create", code=409)], 0),
        ([attempt("create", "events"), attempt("create", "events")], 0),
        ([attempt("create"), attempt("update"), attempt("update")], 0),
        ([attempt("create"), attempt("delete"), attempt("create")], 1),
        (
            [attempt("create", "services"), attempt("delete", "services", code=200)]
            + [attempt("create", "services")],
            0,
        ),
    ],
)
def test_what_both_made_is_made_twice(writes: list[SentWrite], twice: int):
    assert len(made_twice(writes)) == twice
