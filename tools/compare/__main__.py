"""`python -m tools.compare LEFT RIGHT -n NAMESPACE`: print what two clusters show differently.

Hazard: the exit code is an interface: 0 when the differences are those of the tracked list (none
without one), 1 when not, 2 when a cluster could not be read.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.compare import expectation
from tools.compare.differences import differences
from tools.compare.inventory import ClusterReadError, ComparedCluster
from tools.compare.normal_form import normal_form


def main(arguments: Sequence[str]) -> int:
    """Compare both sides and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.compare", description=__doc__)
    parser.add_argument("left", type=Path, help="a kubeconfig")
    parser.add_argument("right", type=Path, help="a kubeconfig")
    parser.add_argument("-n", "--namespace", required=True)
    parser.add_argument("--right-namespace", help="where it has another name")
    parser.add_argument("--expected", type=Path, help="the tracked list")
    options = parser.parse_args(arguments)
    left, right = options.namespace, options.right_namespace or options.namespace
    try:
        found = differences(
            normal_form(ComparedCluster(kubeconfig=options.left).objects(left), left),
            normal_form(ComparedCluster(kubeconfig=options.right).objects(right), right),
        )
    except ClusterReadError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    for difference in found:
        print(difference)
    expected = expectation.read(options.expected) if options.expected else []
    unequal = expectation.unequal(found, expected)
    if options.expected:
        for line in unequal:
            print(line, file=sys.stderr)
    return 1 if unequal else 0


sys.exit(main(sys.argv[1:]))
