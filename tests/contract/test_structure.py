"""Import circles, the size of folders, and the names of modules and classes.

`structure.yaml` has the exceptions, each with its reason. Their numbers may only shrink.
"""

from __future__ import annotations

import pytest

from tools import packages
from tools.structure import exceptions, imports, vocabulary


@pytest.fixture(scope="module")
def counted():
    return exceptions.counted()


def test_modules_have_no_import_circles():
    graphs = imports.graphs(packages.PRODUCT)
    assert all(graphs.values())
    assert [circle for graph in graphs.values() for circle in imports.circles(graph)] == []


@pytest.mark.parametrize("section", ["folders", "classes"])
def test_exceptions_only_shrink(section, counted):
    problems = exceptions.problems(counted[section], exceptions.recorded().get(section, {}))
    assert not problems, "\n".join(problems)


def test_module_names_are_standard_terms_or_terms_of_the_glossary():
    modules = list(packages.modules(packages.PRODUCT))
    assert len(modules) > 500
    found = vocabulary.outside(modules, vocabulary.known())
    assert found == {}, f"Rename these modules, or add the terms to words.txt: {found}"
