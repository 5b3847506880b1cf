"""Mirror of the product modules by the unit tests, and the size of folders.

The test of `syncer/safety/expectations.py` is `tests/unit/syncer/safety/test_expectations.py`, and
so is any `test_expectations_<aspect>.py` beside it. `mirror.yaml` lists the exceptions with their
reasons. An exception that is no longer needed fails here, so the list only shrinks.
"""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools import packages
from tools.packages import PRODUCT, ROOT

UNIT = Path("tests/unit")
# Folders whose modules have unit tests: the repository, and test support such as `tests/support`.
MIRRORED = (Path(), Path("tests"))
SMALL_MODULE_LINES = 40
EXCEPTIONS: dict[str, dict[str, str]] = yaml.safe_load(
    (Path(__file__).parent / "mirror.yaml").read_text()
)
_LAYOUT_TOKENS = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    tokenize.ENDMARKER,
}


def code_lines(text: str) -> int:
    """Return the number of lines that are neither blank, nor comments, nor docstrings."""
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case (
                ast.Module(body=[first, *_])
                | ast.ClassDef(body=[first, *_])
                | ast.FunctionDef(body=[first, *_])
                | ast.AsyncFunctionDef(body=[first, *_])
            ):
                match first:
                    case ast.Expr(value=ast.Constant(value=str()), end_lineno=int(last)):
                        documented.update(range(first.lineno, last + 1))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    code = (token for token in tokens if token.type not in _LAYOUT_TOKENS)
    lines = {line for token in code for line in range(token.start[0], token.end[0] + 1)}
    return len(lines - documented)


def module_of(test: Path, exists: Any = lambda path: (ROOT / path).is_file()) -> Path | None:
    """Return the module that a unit test is named after, or None when there is none.

    Of two modules whose names begin the test's name, the longer name is the module that is meant.
    """
    words = test.stem.removeprefix("test_").split("_")
    folder = test.parent.relative_to(UNIT)
    for count in range(len(words), 0, -1):
        name = "_".join(words[:count])
        for root in MIRRORED:
            if exists(module := root / folder / f"{name}.py"):
                return module
    return None


def untested() -> set[str]:
    """Return the modules of more than 40 lines of code that no unit test is named after."""
    tested = {
        module_of(path) for path in packages.modules([str(UNIT)]) if path.name.startswith("test_")
    }
    return {
        str(path)
        for path in packages.modules(PRODUCT)
        if path not in tested and code_lines((ROOT / path).read_text()) > SMALL_MODULE_LINES
    }


def crowded() -> set[str]:
    """Return the folders with more than 15 modules."""
    places = packages.modules([*PRODUCT, str(UNIT), "tests/scenarios"])
    return packages.crowded(packages.folder_sizes(places))


@pytest.mark.parametrize(
    ("test", "module"),
    [
        ("tests/unit/a/test_b.py", "a/b.py"),
        ("tests/unit/a/test_b_under_load.py", "a/b.py"),
        ("tests/unit/a/test_b_c_under_load.py", "a/b_c.py"),
        ("tests/unit/support/test_d.py", "tests/support/d.py"),
        ("tests/unit/a/test_c.py", None),
        ("tests/unit/test_b.py", None),
    ],
)
def test_name_leads_to_module(test, module):
    there = {Path("a/b.py"), Path("a/b_c.py"), Path("tests/support/d.py")}
    assert module_of(Path(test), there.__contains__) == (module and Path(module))


def test_code_lines_leave_out_comments_and_docstrings():
    text = (
        '"""Doc.\n\nMore.\n"""\n\n# Why.\nX = """\na\n"""\n\ndef f():\n    """Doc."""\n    return X'
    )
    assert code_lines(text) == 5


def test_each_unit_test_is_named_after_a_module():
    tests = [path for path in packages.modules([str(UNIT)]) if path.name.startswith("test_")]
    assert len(tests) > 200
    assert [str(path) for path in tests if module_of(path) is None] == []


def test_unit_folders_hold_tests_alone():
    """Test support that several files need lies in `tests/support`."""
    other = [path for path in packages.modules([str(UNIT)]) if not path.name.startswith("test_")]
    assert [str(path) for path in other if path.name != "conftest.py"] == []


def test_each_module_has_a_unit_test():
    assert sorted(untested() - EXCEPTIONS["modules"].keys()) == []


def test_each_folder_is_small():
    assert sorted(crowded() - EXCEPTIONS["folders"].keys()) == []


def test_each_exception_is_still_needed():
    assert sorted(EXCEPTIONS["modules"].keys() - untested()) == []
    assert sorted(EXCEPTIONS["folders"].keys() - crowded()) == []


def test_each_exception_has_a_reason():
    for entries in EXCEPTIONS.values():
        assert all(reason.strip() for reason in entries.values())
