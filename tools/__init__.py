"""Programs for developers: testbed, demo, conformance, mutation tests, tables."""
