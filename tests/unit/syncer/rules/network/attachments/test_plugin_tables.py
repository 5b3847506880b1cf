"""The values that a plugin's keys may have."""

from __future__ import annotations

import pytest

from syncer.rules.network.attachments import plugin_tables as tables


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (tables.is_flag, [True, False], [1, "true", None]),
        (tables.is_number, [0, 4094], [True, "1", 1.5]),
        (tables.is_mtu, [1500, 9000], [0, 100_000, "1500", True]),
        (tables.is_rate, [1], [0, -1, 10**13]),
        (tables.is_address, ["10.0.0.1", "2001:db8::1"], ["10.0.0.0/8", "x", 1]),
        (tables.is_network, ["10.0.0.0/8", "10.0.0.7/24"], ["10.0.0.1", "10.0.0.0/99", 1]),
        (tables.is_one_of("l2"), ["l2"], ["l3", ["l2"], None]),
        (tables.is_list_of(tables.is_flag), [[], [True]], [[1], "x", [True] * 99]),
        (tables.is_routes, [[{"dst": "0.0.0.0/0"}]], [[{}], [{"dst": "0.0.0.0/0", "via": "x"}]]),
    ],
)
def test_a_check_accepts_its_values_only(check, good, bad):
    assert all(map(check, good))
    assert not any(map(check, bad))


def test_no_key_names_a_path_a_program_or_the_node():
    keys = {
        *(key for row in tables.MAIN_PLUGINS.values() for key in row.keys),
        *(key for row in tables.CHAINED_PLUGINS.values() for key in row),
        *(key for row in tables.IPAM_PLUGINS.values() for key in row),
        *tables.CAPABILITIES,
    }
    dangerous = {"dataDir", "log_file", "kubernetes", "delegate", "isGateway", "ipMasq", "sysctl"}
    assert not keys & dangerous
    assert set(tables.IPAM_PLUGINS) == {"static", "whereabouts"}
