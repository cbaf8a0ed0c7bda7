"""An app that tells what it can reach on a node, and leaves a mark that it ran."""
