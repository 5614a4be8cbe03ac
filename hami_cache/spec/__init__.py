"""What a layout is, where its description comes from, and which layout some bytes have."""
