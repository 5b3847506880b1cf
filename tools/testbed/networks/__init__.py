"""Additional networks of pods in the testbed: a stand-in for Multus, and the network below it."""
