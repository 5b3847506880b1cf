"""The commands make the map of HAProxy equal to the desired one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenancy.access.hosts import HostClaim
from vcmanager.api_proxy import host_map

MAPS = st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["10.0.0.1/1", "10.0.0.2/2"]))


def play(commands, rows):
    """Do what HAProxy does with these commands."""
    rows = list(rows)
    for command in commands:
        match command.split():
            case ["add", "map", "/m", host, value]:
                rows.append((host, value))
            case ["set", "map", "/m", host, value]:
                assert host in dict(rows)
                rows = [(each, value if each == host else old) for each, old in rows]
            case ["del", "map", "/m", host]:
                assert host in dict(rows)
                rows = [each for each in rows if each[0] != host]
            case _:
                raise AssertionError(command)
    return rows


@given(MAPS, st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["10.0.0.1/1", "x"]))))
def test_the_map_becomes_the_desired_one(desired, actual):
    commands = host_map.build_commands("/m", desired, actual)
    assert set(play(commands, actual)) == set(desired.items())
    assert host_map.build_commands("/m", desired, play(commands, actual)) == []


def test_a_changed_address_is_set_in_place():
    commands = host_map.build_commands("/m", {"a": "2/2"}, [("a", "1/1")])
    assert commands == ["set map /m a 2/2"]


def test_only_checked_texts_are_in_the_map():
    def claim(address):
        return HostClaim(namespace="n", name="a", uid="u", created="", address=address)

    owners = [
        ("a.example.com", claim("10.96.0.7:6443")),
        ("b.example.com", claim("")),
        ("c.example.com", claim("127.0.0.1:2379")),
        ("d;shutdown", claim("10.96.0.7:6443")),
        ("e.example.com", claim("[fd00::1]:6443")),
    ]
    found = host_map.build_map(owners)
    assert found == {"a.example.com": "10.96.0.7/6443", "e.example.com": "fd00::1/6443"}
    assert host_map.format_file(found) == (
        "a.example.com 10.96.0.7/6443\ne.example.com fd00::1/6443\n"
    )


def test_an_answer_is_read_line_by_line():
    text = "0x7efd7f5dcc80 a.b.c 10.0.0.1/6443\n0x7efd7f5dccf0 x.y 1.1.1.1/1\n\n"
    assert host_map.parse_answer(text) == [("a.b.c", "10.0.0.1/6443"), ("x.y", "1.1.1.1/1")]
    assert host_map.parse_answer("\n") == []
    with pytest.raises(ValueError, match="Unknown map identifier"):
        host_map.parse_answer("Unknown map identifier. Please use #<id> or <file>.\n\n")
