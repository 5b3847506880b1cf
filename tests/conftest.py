"""Rules for every run of tests: no test builds a program, and no property is judged by time.

Properties are judged by what they find, not by how long a busy machine takes for an example.

`make check` tries fewer examples of each (`--hypothesis-profile=quick`), `make test` all, and
`make mutants` the same ones each time. `long` is for one property that is wanted at length.
"""

import pytest
from hypothesis import settings

from tools.testbed.artifacts import prebuilt

settings.register_profile("untimed", deadline=None)
settings.register_profile("quick", parent=settings.get_profile("untimed"), max_examples=25)
settings.register_profile("mutants", parent=settings.get_profile("quick"), derandomize=True)
settings.register_profile("long", parent=settings.get_profile("untimed"), max_examples=1000)
settings.load_profile("untimed")

prebuilt.require()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of a folder together, in random order of its files.

    A folder's servers end with its last test. In random order, the servers of all folders would
    run until the end: nine API servers for each process of tests.
    """
    items.sort(key=lambda item: item.path.parent.parts)
