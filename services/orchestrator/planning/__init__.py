"""How a question is taken apart into a graph of sub-questions, and how that graph is run."""
