"""Comments and texts of chart files."""

from tools.prose import manifests
from tools.prose.sentences import Line

CRD = """\
# A comment
# of two lines.
spec:
  description: A short text.
  properties:
    description:
      description: >-
        A long
        text.
  replicas: 1  # trailing
"""


def blocks(found) -> list[list[Line]]:
    return [block for block in found if block]


def test_comments():
    assert blocks(manifests.comments(CRD)) == [
        [Line(1, "A comment"), Line(2, "of two lines.")],
        [Line(10, " trailing".strip())],
    ]


def test_comments_of_templates():
    text = "a: b\n{{- /*\nA comment\nof two lines.\n*/ -}}\n{{/* One more. */}}\n"
    assert blocks(manifests.template_comments(text)) == [
        [Line(3, "A comment"), Line(4, "of two lines.")],
        [Line(6, " One more. ")],
    ]


def test_texts_of_descriptions():
    assert blocks(manifests.texts(CRD)) == [
        [Line(4, "A short text.")],
        [Line(7, "A long text.")],
    ]


def test_json_is_read_as_well():
    assert blocks(manifests.texts('{"title": "Queue depth"}')) == [[Line(1, "Queue depth")]]


def test_template_has_comments_alone():
    assert blocks(manifests.texts("{{- if a }}\ndescription: b\n{{- end }}")) == []
