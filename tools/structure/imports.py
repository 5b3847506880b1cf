"""Longest import chain and import circles of each package.

Imports under `TYPE_CHECKING` count. Imports of other packages do not. The length of a chain is its
number of modules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import TopologicalSorter

import grimp

Graph = Mapping[str, frozenset[str]]
"""The modules of one package, each with the modules of the package that it imports."""


def graphs(packages: Iterable[str]) -> dict[str, Graph]:
    """Return the import graph of each package. The packages must be importable."""
    names = list(packages)
    whole = grimp.build_graph(*names, cache_dir=None)
    found: dict[str, Graph] = {}
    for package in names:
        inside = {package, *whole.find_descendants(package)}
        found[package] = {
            module: frozenset(whole.find_modules_directly_imported_by(module) & inside)
            for module in sorted(inside)
        }
    return found


def circles(graph: Graph) -> list[list[str]]:
    """Return the groups of modules that import each other, directly or not."""
    return [sorted(group) for group in _components(graph) if len(group) > 1]


def longest_chain(graph: Graph) -> list[str]:
    """Return the modules of the longest import chain, each of which imports the next one.

    The modules of a circle stand together, in alphabetical order.
    """
    groups = _components(graph)
    group_of = {module: n for n, group in enumerate(groups) for module in group}
    needs = {
        n: {group_of[to] for module in group for to in graph[module]} - {n}
        for n, group in enumerate(groups)
    }
    chains: dict[int, list[str]] = {}
    for n in TopologicalSorter(needs).static_order():
        behind = max((chains[to] for to in sorted(needs[n])), key=len, default=[])
        chains[n] = [*sorted(groups[n]), *behind]
    return max(chains.values(), key=len, default=[])


def _components(graph: Graph) -> list[set[str]]:
    """Return the strongly connected components."""
    reached = {module: _reached(graph, module) for module in graph}
    groups: list[set[str]] = []
    done: set[str] = set()
    for module in graph:
        if module not in done:
            group = {module, *(to for to in reached[module] if module in reached[to])}
            groups.append(group)
            done |= group
    return groups


def _reached(graph: Graph, module: str) -> set[str]:
    found: set[str] = set()
    pending = [module]
    while pending:
        for to in graph[pending.pop()] - found:
            found.add(to)
            pending.append(to)
    return found
