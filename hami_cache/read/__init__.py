"""From a hostile file to a consistent, meaningful snapshot."""
