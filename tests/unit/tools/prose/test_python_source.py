"""Docstrings, comments and messages of Python modules."""

import pytest

from tools.prose import python_source
from tools.prose.sentences import CODE, Line

MODULE = '''\
"""Module.

More.
"""
X = 1  # trailing comment
"""Attribute."""

# First line of two,
# second line.
Y = 2  # noqa: E501


def f():
    """Return it."""
'''


def texts(blocks) -> list[str]:
    return [" ".join(line.text for line in block) for block in blocks if block]


def messages(source: str) -> list[str]:
    return texts(python_source.messages(python_source.nodes(source)))


def test_docstrings_of_module_attribute_and_function():
    found = texts(python_source.docstrings(python_source.nodes(MODULE)))
    assert sorted(found) == ["Attribute.", "Module.", "More.", "Return it."]


def test_comments_without_pragmas():
    assert texts(python_source.comments(MODULE)) == [
        "trailing comment",
        "First line of two, second line.",
    ]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("x = 'a pod of five words'", ["a pod of five words"]),
        ("x = 'only four words here'", []),
        ("raise E(f'the pod {n} is not there')", [f"the pod {CODE} is not there"]),
        ("x = 'the pod ' 'is in two parts'", ["the pod is in two parts"]),
        ("typer.Option(help='Short.')", ["Short."]),
        ("Gauge('name', 'Age.', ['x'])", ["Age."]),
        ("re.compile('a b c d e f')", []),
        ("re.compile('|'.join(['a b c d e f']))", []),
        ("x = 'HTTP/1.1 200 OK\\r\\nHost: a\\r\\n b c d'", []),
        ("x = 'apiVersion: v1\\nkind: Pod\\nmetadata: {a: b}'", []),
        ("'a docstring with many words in it'", []),
    ],
)
def test_messages(source, found):
    assert messages(source) == found


def test_line_of_message():
    (block,) = python_source.messages(python_source.nodes("\n\nx = 'a pod of five words'"))
    assert block == [Line(3, "a pod of five words")]
