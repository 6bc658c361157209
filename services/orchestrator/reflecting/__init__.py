"""Self-reflection by prompt, after Self-RAG (Asai et al., ICLR 2024)."""
