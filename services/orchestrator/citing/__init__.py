"""Whether an answer says what its sources say."""
