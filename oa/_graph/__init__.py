"""Layer 2: the semantic graph. What was asked, in order, and nothing about how it will run."""
