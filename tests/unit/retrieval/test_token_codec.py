"""Token vectors in a few bits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.retrieval import token_codec
from services.retrieval.store import TokenMatrix
from services.retrieval.token_codec import Format, pack, unpack

# Half a step of the largest value of a row, and what float16 loses of the scale.
ERRORS = {Format.INT8: 0.51 / 127 + 2e-3, Format.INT4: 0.51 / 7 + 1e-2}


def matrix(rows):
    values = np.asarray(rows, "<f2")
    return TokenMatrix(values.shape[1], values.tobytes())


def unit(rows):
    values = np.asarray(rows, "<f2").astype(float)
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    return values / np.where(lengths > 0, lengths, 1)


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from(Format),
    st.integers(1, 9),
    st.lists(st.integers(0, 6), min_size=1, max_size=5),
    st.integers(0, 2**32 - 1),
)
def test_rows_come_back_within_half_a_step_whatever_their_shape(format, dimensions, counts, seed):
    rng = np.random.default_rng(seed)
    rows = [rng.standard_normal((count, dimensions)) * 10.0 ** rng.integers(-1, 3) for count in counts]
    read = unpack([pack(matrix(one), format) for one in rows])
    expected = np.concatenate([unit(one) for one in rows])
    assert read.counts == counts
    assert np.abs(read.values * read.scales[:, None] - expected).max(initial=0) <= ERRORS[format]


def test_files_of_both_formats_are_read_together():
    rows = np.random.default_rng(0).standard_normal((4, 6))
    read = unpack([pack(matrix(rows), Format.INT8), pack(matrix(rows), Format.INT4), pack(matrix(rows), Format.INT8)])
    values = read.values * read.scales[:, None]
    assert np.abs(values[:4] - unit(rows)).max() <= ERRORS[Format.INT8]
    assert np.abs(values[4:8] - unit(rows)).max() <= ERRORS[Format.INT4]
    assert (values[8:] == values[:4]).all()


def test_a_token_of_384_values_takes_194_bytes():
    rows = np.random.default_rng(0).standard_normal((150, 384))
    assert len(pack(matrix(rows))) == 8 + 150 * 194
    assert len(pack(matrix(rows), Format.INT8)) == 8 + 150 * 386


def test_rows_without_length_and_values_that_are_not_finite_count_as_zero():
    read = unpack([pack(matrix([[0, 0], [np.nan, 1], [np.inf, -1]]))])
    assert (read.values * read.scales[:, None]).tolist() == [
        [0, 0],
        [0, pytest.approx(1, abs=1e-3)],
        [0, pytest.approx(-1, abs=1e-3)],
    ]


def test_a_format_that_is_not_known_is_an_error():
    packed = bytearray(pack(matrix([[1, 2]])))
    packed[0] = 9
    with pytest.raises(ValueError, match="9"):
        unpack([bytes(packed)])


def test_nothing_is_read_from_nothing():
    assert len(unpack([]).values) == 0
    assert token_codec.count_of(pack(TokenMatrix(4, b""))) == 0
