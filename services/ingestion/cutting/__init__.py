"""From blocks to passages: the strategies and what they share."""
