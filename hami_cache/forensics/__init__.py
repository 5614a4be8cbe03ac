"""What can be told from caches that are not live any more."""
