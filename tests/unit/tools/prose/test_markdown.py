"""Paragraphs of Markdown, without what is no prose."""

import textwrap

from tools.prose import markdown

PAGE = """\
# Title

First line
second line.

- Item one
  goes on.
- Item two.

```
code; more code
```

<!-- note;
more -->

| cell; a | b |
|---|---|

**Note.** A short bold text is a heading.

    indented; code

> A quote.
"""


def paragraphs(text: str, *, is_cell: bool = False) -> list[str]:
    blocks = markdown.paragraphs(textwrap.dedent(text))
    wanted = [block for block in blocks if block and block[0].is_cell == is_cell]
    return [" ".join(line.text.strip() for line in block) for block in wanted]


def test_paragraphs_leave_out_what_is_no_prose():
    assert paragraphs(PAGE) == [
        *("First line second line.", "Item one goes on.", "Item two."),
        *("A short bold text is a heading.", "A quote."),
    ]


def test_cells_of_tables():
    assert {"cell; a", "b"} <= set(paragraphs(PAGE, is_cell=True))


def test_cells_of_tables_in_list_items():
    assert "c \\| d" in paragraphs("- Item.\n\n  | c \\| d |\n", is_cell=True)


def test_numbers_of_lines_stay():
    (block,) = (block for block in markdown.paragraphs("# T\n\nText.") if block)
    assert [line.number for line in block] == [3]


def test_front_matter_is_no_prose_and_keeps_the_line_numbers():
    page = "---\ncommands: not run; never\n---\n# Title\n\nFirst line.\n"
    (block,) = [block for block in markdown.paragraphs(page) if block]
    assert [(line.number, line.text) for line in block] == [(6, "First line.")]
