"""Requests at rest that are renewals, and others."""

import pytest

from bench.memory import profiles

ASKED, PUT = "tenant create serviceaccounts/token", "super update secrets"


@pytest.mark.parametrize(
    ("each", "writes", "tokens", "besides"),
    [
        ({"super update leases": 24}, 0, 0, 0),
        ({ASKED: 5, PUT: 5}, 10, 5, 0),
        ({ASKED: 5, PUT: 4}, 9, 5, 0),
        ({ASKED: 5, PUT: 7}, 12, 5, 2),
        ({ASKED: 5, PUT: 5, "tenant patch nodes/status": 3}, 13, 5, 3),
    ],
)
def test_tokens_that_are_renewed_are_no_other_write(
    each: dict[str, int], writes: int, tokens: int, besides: int
):
    found = profiles.renewals({"each": each, "writes": writes})
    assert (found["tokens_renewed"], found["writes_besides"]) == (tokens, besides)
