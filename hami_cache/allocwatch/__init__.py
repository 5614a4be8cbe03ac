"""The node's allocation turned into readings."""
