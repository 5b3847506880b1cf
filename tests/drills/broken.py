"""`python -m tests.drills.broken MUTANT ...`: the syncer, broken on purpose in one way.

The ways are those of `tests.properties.machine.mutants`; what follows are the syncer's own options.
A drill that does not find it proves nothing.
"""

import sys

from syncer.__main__ import main
from tests.properties.machine import mutants

if __name__ == "__main__":
    with mutants.broken(sys.argv[1]):
        sys.exit(main(sys.argv[2:]))
