from kubectl_vc.output import description


def test_fields_are_aligned_and_lists_have_a_line_each():
    text = description.format_fields(
        [("Name", "web"), ("Labels", ["a=1", "b=2"]), ("Annotations", []), ("Phase", "")]
    )
    assert text == (
        "Name:         web\n"
        "Labels:       a=1\n"
        "              b=2\n"
        "Annotations:  <none>\n"
        "Phase:        <none>\n"
    )


def test_a_section_is_indented_or_none():
    assert description.format_section("Events", "\nA   B\n1   2\n") == "Events:\n  A   B\n  1   2\n"
    assert description.format_section("Events", "") == "Events:  <none>\n"


def test_maps_are_sorted():
    assert description.format_map({"b": 2, "a": "1"}) == ["a=1", "b=2"]
    assert description.format_map({"a": "1"}, ": ") == ["a: 1"]
    assert description.format_map(None) == []
