"""Rules for every run of tests: no test builds a program, and no property is judged by time.

Properties are judged by what they find, not by how long a busy machine takes for an example.

`make check` tries fewer examples of each (`--hypothesis-profile=quick`), `make test` all, and
`make mutants` the same ones each time. `long` is for one property that is wanted at length.
"""

from hypothesis import settings

from tools.testbed.artifacts import prebuilt

settings.register_profile("untimed", deadline=None)
settings.register_profile("quick", parent=settings.get_profile("untimed"), max_examples=25)
settings.register_profile("mutants", parent=settings.get_profile("quick"), derandomize=True)
settings.register_profile("long", parent=settings.get_profile("untimed"), max_examples=1000)
settings.load_profile("untimed")

prebuilt.require()
