"""The network, readable beside the paper, and the files its weights live in."""
