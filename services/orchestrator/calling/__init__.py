"""How families of models write tool calls, and how calls are read from whatever they write."""
