"""Measurement programs. Results hold for one machine, so compare only results of one run."""
