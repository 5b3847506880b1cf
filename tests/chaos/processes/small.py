"""Small drills, and the fault that each of them must find."""

from __future__ import annotations

SEED = 7
OUTAGE_SECONDS = 60.0
"""Of an API server. Ten minutes are for the program."""
TURNS = {
    "kill": 1,
    "restart": 2,
    "proxy": 3,
    "restore": 3,
    "away": 1,
    "clock": 4,
    "lease": 1,
    "follow": 1,
    "target": 1,
    "sleep": 4,
}
MUTANTS = {
    "kill": "orphans_are_ignored",
    "restart": "failed_keys_are_dropped",
    "proxy": "no_uid_in_deletes",
    "restore": "no_store_guard",
    "away": "failed_keys_are_dropped",
    "clock": "leases_use_the_wall_clock",
    "lease": "no_fence",
    "follow": "orphans_are_ignored",
    "target": "failed_keys_are_dropped",
    "sleep": "kept_pods_are_stopped",
}
MANY = 12
"""Turns that a broken syncer has before it must be found."""
BROKEN_SECONDS = 40.0
"""Until what a broken syncer leaves behind counts as left."""
