"""Scores how well texts answer a query."""

import os

# Before numpy is loaded: the products are small, and a second thread of OpenBLAS spins on a processor that others need
# (measured beside busy neighbours: 56 ms a request with two, 11 ms with one).
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
