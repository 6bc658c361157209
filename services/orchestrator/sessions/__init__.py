"""Conversations that are kept between questions."""
