"""The pages of `docs/walkthroughs` as tests: read, run in order, and compared."""
