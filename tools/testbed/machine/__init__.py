"""The Linux machine below the clusters: its kernel, cgroups and limits, and its tools."""
