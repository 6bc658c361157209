"""POST /v1/responses: the agent in the words of OpenAI's Responses API."""
