"""The recorded numbers only shrink."""

from tools.prose import ratchet


def test_more_violations_are_a_problem():
    (problem,) = ratchet.problems({"syncer": 3}, {"syncer": 2})
    assert "3 violations" in problem
    assert "--list syncer" in problem


def test_fewer_violations_must_be_recorded():
    (problem,) = ratchet.problems({"syncer": 1}, {"syncer": 2})
    assert "--record" in problem
    assert ratchet.problems({}, {"syncer/model": 1})


def test_same_number_passes():
    assert ratchet.problems({"syncer": 2}, {"syncer": 2}) == []


def test_new_folder_has_no_allowance():
    assert ratchet.problems({"syncer/new": 1}, {})


def test_package_total_decides_whether_numbers_rise():
    before = {"syncer/flows": 5, "vnagent": 2}
    assert ratchet.raised({"syncer/controllers": 5, "vnagent": 1}, before) == []
    assert ratchet.raised({"syncer/controllers": 6}, before) == [
        "syncer: 6 violations, and 5 are recorded"
    ]


def test_record_is_read_back(tmp_path, monkeypatch):
    monkeypatch.setattr(ratchet, "FILE", tmp_path / "prose.yaml")
    assert ratchet.recorded() == {}
    ratchet.record({"syncer": 2})
    assert ratchet.recorded() == {"syncer": 2}
