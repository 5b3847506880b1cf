"""The files of a release: wheel, chart, images, plugin, bill of materials and checksums."""
