"""The agent: model, tools, budget."""
