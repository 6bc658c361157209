"""A golden set asked of a running product: answers, scores, comparisons, reports, the gate."""
