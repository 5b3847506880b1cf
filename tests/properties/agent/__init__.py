"""Properties of the node agent for any input, at any length.

`python -m tests.properties.agent targets` prints what was tried, and ends with 0 when it held.
`make properties` tries a little of each.
"""
