"""The questions of the bench of semantic lookups, and vectors for them: no model takes part.

Standard library and numpy only: ours and the peers use it.
"""

import numpy as np

COUNT, DIMENSIONS = 10_000, 384


def asked(number: int) -> str:
    """What was asked before, and stored."""
    return f"¿qué penalización tiene el contrato CT-2025-{number:05d} por retraso en la entrega?"


def near(number: int) -> str:
    """The same in other words."""
    return f"dime, por favor, qué penalización tiene el contrato CT-2025-{number:05d} por retraso en la entrega"


def unknown(number: int) -> str:
    """What nobody asked."""
    return f"¿quién firmó el acuerdo marco {COUNT + number} con la fábrica?"


def vector(text: str) -> np.ndarray:
    """A unit vector: near questions have a cosine of 0.98 with the one that was asked, others of 0."""
    number = int("".join(sign for sign in text if sign.isdigit())[-9:] or 0)
    found = np.random.default_rng(number).standard_normal(DIMENSIONS)
    if text != asked(number % 100_000) and text.startswith("dime"):
        found += 0.2 * np.random.default_rng(number + 1).standard_normal(DIMENSIONS)
    return (found / np.linalg.norm(found)).astype(np.float32)
