"""The chart and the program that writes its generated files."""
