"""What the node knows: containers, pods, processes, cards."""
