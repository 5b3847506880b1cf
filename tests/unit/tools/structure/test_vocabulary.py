"""Words of module names."""

from pathlib import Path

import pytest

from tools.structure import vocabulary

PAGE = "# Glossary\n\n| word | meaning |\n|---|---|\n| super cluster | The cluster. |\n"


@pytest.mark.parametrize("word", ["pod", "pods", "policies", "classes", "address", "addresses"])
def test_word_or_its_singular_is_known(word):
    assert vocabulary.is_known(word, {"pod", "policy", "class", "address"})


def test_glossary_has_words_of_first_cells():
    assert vocabulary.glossary(PAGE) == {"word", "super", "cluster"}


def test_words_outside_with_their_modules():
    paths = [Path("pods/muster.py"), Path("pods/__main__.py"), Path("seats/pod_muster.py")]
    assert vocabulary.outside(paths, {"pod"}) == {
        "muster": ["pods/muster.py", "seats/pod_muster.py"],
        "seats": ["seats/pod_muster.py"],
    }


def test_standard_list_has_no_coined_words():
    assert vocabulary.known().isdisjoint({"muster", "seat", "tidings", "ripples", "strays"})
