"""Every pod container's share of every GPU."""
