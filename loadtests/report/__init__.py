"""What a load test came to, for people: HTML with plots and Markdown, of one run or of two that are compared.

`write(folder)` needs `run.json` and `samples.jsonl` in the folder; docs/load-tests.md describes both.
"""

from loadtests.report.pages import write
from loadtests.report.records import BadFolder

__all__ = ["BadFolder", "write"]
