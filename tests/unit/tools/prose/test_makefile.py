"""Prose of a Makefile."""

from tools.prose import makefile
from tools.prose.sentences import Line

TEXT = """\
# A comment
# of two lines.
push: ready ## push all images
\t@test -n "$(A)" || { echo "A is missing. Run \\`make push A=1\\`." >&2; exit 2; }
\t@$(BIN)/python -m tools
"""


def test_comments_help_and_printed_texts():
    assert [block for block in makefile.paragraphs(TEXT) if block] == [
        [Line(1, "A comment"), Line(2, "of two lines.")],
        [Line(3, "push all images")],
        [Line(4, "A is missing. Run `make push A=1`.")],
    ]
