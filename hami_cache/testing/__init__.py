"""Building caches and nodes for tests, ours and other people's."""
