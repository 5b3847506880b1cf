"""A million damaged request targets for the agent: each is refused, or stays with its caller."""

import random

from tests.support.kubelet_targets import SEEDS, is_harmless, mutate


def test_a_million_damaged_targets():
    """FIG-01: nothing or the caller's own namespace goes to the kubelet."""
    chance = random.Random()  # noqa: S311 - no secret
    passed = sum(is_harmless(mutate(chance, chance.choice(SEEDS))) for _ in range(1_000_000))
    print(f"1,000,000 targets tried, {passed} harmless ones passed")
