"""The words every component must agree on: names, marks, coordinates, specs, conditions, ownership.

Pure: no I/O, no third-party import. What is spelled here is spelled nowhere else.
"""
