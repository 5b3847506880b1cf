"""The negative list: what a tenant may not have, each with a neighbour that it may.

Data only. `tests.integration.syncer.test_negative` runs it.
"""

from dataclasses import replace

from tests.integration.syncer.negative_list import network, others, pods, tables

_ALL = (*tables.cases(), *pods.cases(), *network.cases(), *others.cases())
CASES = tuple(replace(case, number=number) for number, case in enumerate(_ALL))
