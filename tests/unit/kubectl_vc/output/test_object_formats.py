import pytest

from kubectl_vc.output.object_formats import ObjectFormat, parse_object_format
from kubectl_vc.output.printers import OutputFormat


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("json", ObjectFormat(OutputFormat.JSON)),
        ("wide", ObjectFormat(OutputFormat.WIDE)),
        ("jsonpath={.a}={.b}", ObjectFormat(template="jsonpath={.a}={.b}")),
        (
            "custom-columns=N:.metadata.name",
            ObjectFormat(template="custom-columns=N:.metadata.name"),
        ),
        ("go-template-file=x", ObjectFormat(template="go-template-file=x")),
    ],
)
def test_formats(text, found):
    assert parse_object_format(text) == found


@pytest.mark.parametrize("text", ["", "yml", "jsonpath", "jsonpath=", "json=", "=x", "JSON"])
def test_wrong_formats(text):
    with pytest.raises(ValueError, match=r"must be one of|needs a template"):
        parse_object_format(text)
