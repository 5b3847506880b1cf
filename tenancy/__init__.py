"""Shared definitions of all components: names, labels, coordinates, specs, conditions, ownership.

Pure: no I/O, no third-party import. No other package spells these strings.
"""
