"""One super cluster on the machine: its network, its processes, and its handle.

Must stay without imports. The supervisor runs as a script, and an import here would slow its start.
"""
