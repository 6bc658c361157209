"""Scores what users write by how much it tries to give orders that a user may not give."""

from typing import Protocol

from services.runtime.recognition.injections.detector import Detector


class Scorer(Protocol):
    """Judges a text."""

    def score(self, text: str) -> float:
        """From 0, nothing of the kind, to 1."""
        ...


class DetectorScorer:
    """By what the words of each sentence stand for, and the patterns that they make; see the detector."""

    def __init__(self) -> None:
        self._detector = Detector()

    def score(self, text: str) -> float:
        """From 0 to 1. Time grows with the text's length and no faster."""
        return self._detector.score(text, "user")
