"""The model that judges, its prompts, its cache and its budget."""
