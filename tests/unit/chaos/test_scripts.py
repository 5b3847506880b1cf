"""Scripts: the same seed is the same script, and JSON keeps it."""

from __future__ import annotations

import json

from tests.chaos import scripts

WEIGHTS = {"make space": 1.0, "make pod": 1.0, "edit": 2.0, "end": 0.0}


def test_seed_is_a_script():
    found = [scripts.build_script(seed, 30, WEIGHTS) for seed in range(20)]
    assert found == [scripts.build_script(seed, 30, WEIGHTS) for seed in range(20)]
    assert all(len(steps) == 30 for steps in found)
    assert found[0] != found[1]


def test_step_without_weight_never_comes():
    names = {step.name for seed in range(20) for step in scripts.build_script(seed, 30, WEIGHTS)}
    assert names == {"wait", "make space", "make pod", "edit"}


def test_json_keeps_a_script():
    steps = scripts.build_script(3, 30, WEIGHTS)
    assert scripts.load(json.loads(json.dumps(scripts.dump(steps)))) == steps
