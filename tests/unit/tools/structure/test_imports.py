"""Circles and chains of import graphs."""

import pytest

from tools.structure import imports


def graph(**needs: str) -> imports.Graph:
    return {module: frozenset(to.split()) for module, to in needs.items()}


@pytest.mark.parametrize(
    ("modules", "circles", "chain"),
    [
        (graph(), [], []),
        (graph(a=""), [], ["a"]),
        (graph(a="b c", b="c", c=""), [], ["a", "b", "c"]),
        (graph(a="b", b="a"), [["a", "b"]], ["a", "b"]),
        (graph(a="b", b="c", c="b d", d=""), [["b", "c"]], ["a", "b", "c", "d"]),
        (graph(a="b", b="c", c="a", x="y", y="x"), [["a", "b", "c"], ["x", "y"]], ["a", "b", "c"]),
    ],
)
def test_circles_and_longest_chain(modules, circles, chain):
    assert imports.circles(modules) == circles
    assert imports.longest_chain(modules) == chain


def test_graph_of_package_has_its_own_modules_alone():
    found = imports.graphs(["tools"])["tools"]
    assert found["tools.structure.classes"] == {"tools.packages"}
