"""Parsing of a walkthrough, comparison of its output, and a test for each page."""

import ast

import pytest

from tools.testbed.cluster.handle import REPOSITORY
from tools.walks import page, run
from tools.walks.page import PageCommand, PageFile

PAGE = """\
Words.

```yaml job.yaml
kind: Job
```

```console
$ kubectl apply -f job.yaml
job.batch/test created
$ for one in a b; do
>   echo $one
> done
```

```yaml
only: to be read
```
"""


def test_files_and_commands_come_in_their_order():
    assert page.steps(PAGE) == [
        PageFile("job.yaml", "kind: Job\n"),
        PageCommand(8, "kubectl apply -f job.yaml", ("job.batch/test created",)),
        PageCommand(10, "for one in a b; do\n  echo $one\ndone", ()),
    ]


def test_blocks_of_list_items_are_read_without_their_indent():
    text = """\
1. Write it:

   ```yaml a.yaml
   a:
     b: 1
   ```

2. Apply it:

   ```console
   $ kubectl apply -f a.yaml
   a created
   ```
"""
    assert page.steps(text) == [
        PageFile("a.yaml", "a:\n  b: 1\n"),
        PageCommand(11, "kubectl apply -f a.yaml", ("a created",)),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("```console\n$ ls\n", "does not end"),
        ("```console\nls\n```\n", "begins with a command"),
        ("```console\n```\n", "without a command"),
        ("```python\n1\n```\n", "is not known"),
    ],
)
def test_a_block_that_no_one_would_run_is_refused(text: str, words: str):
    with pytest.raises(ValueError, match=words):
        page.steps(text)


@pytest.mark.parametrize(
    ("printed", "shown", "same"),
    [
        ("NAME   READY\nweb-x1 1/1\n", ["NAME READY", "web-...  1/1"], True),
        ("NAME READY\nweb-x1 0/1\n", ["NAME READY", "web-... 1/1"], False),
        ("a\nb\nc\n", ["a", "...", "c"], True),
        ("a\nc\n", ["a", "...", "c"], True),
        ("a\nb\n", ["a"], False),
        ("a\n", ["a", "b"], False),
        ("", ["a"], False),
        ("5 target-c2 more words\n", ["5 target-... words"], True),
        ("a.b\n", ["axb"], False),
        ("anything", [], True),
    ],
)
def test_what_is_shown(printed: str, shown: list[str], same: bool):
    assert page.is_shown(printed, shown) is same


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("kubectl get pods | sort", True),
        ("kubectl --kubeconfig demo.kubeconfig get pods", True),
        ("kubectl --kubeconfig=c2.kubeconfig -n default logs job/test", True),
        ("for c in a b; do kubectl --kubeconfig $c get pods; done", True),
        ("kubectl vc target list", True),
        ("kubectl vc target join c2", False),
        ("kubectl vc get demo", True),
        ("kubectl apply -f get.yaml", False),
        ("kubectl get pods; kubectl delete pod a", False),
        ("kubectl get pods -o name | xargs kubectl delete", False),
        ("echo get", False),
    ],
)
def test_only_what_reads_is_run_again(text: str, reads: bool):
    assert run.only_reads(text) is reads


def test_a_step_that_fails_is_reported_with_its_line(tmp_path):
    where = tmp_path / "page.md"
    where.write_text("```console\n$ echo one; exit 3\ntwo\n```\n")
    with pytest.raises(run.WalkthroughError, match=r"(?s)page.md, line 2.*ended with 3.*one"):
        run.walk(where, tmp_path, {"PATH": "/usr/bin:/bin"})
    where.write_text("```yaml a.yaml\nb: c\n```\n```console\n$ cat a.yaml\nb: ...\n```\n")
    run.walk(where, tmp_path, {"PATH": "/usr/bin:/bin"})


def test_every_walkthrough_is_walked():
    tests = (REPOSITORY / "tests/node/test_walkthroughs.py").read_text()
    named = {
        node.value
        for node in ast.walk(ast.parse(tests))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    found = sorted((REPOSITORY / "docs/walkthroughs").glob("*.md"))
    assert found
    for path in found:
        text = path.read_text()
        assert path.name in named or text.startswith("---\ncommands: not run\n")
        assert page.steps(text)
