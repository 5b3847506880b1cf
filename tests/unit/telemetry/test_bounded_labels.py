from telemetry.bounded_labels import BoundedLabels


def test_the_first_inputs_have_labels_of_their_own_and_keep_them():
    labels = BoundedLabels(2, other="other", build=str.upper)
    assert [labels.get(value) for value in "abca"] == ["A", "B", "other", "A"]


def test_two_sets_of_labels_share_nothing():
    first, second = (BoundedLabels(1, other="other", build=str) for _ in range(2))
    assert first.get("a") == "a"
    assert second.get("b") == "b"
