from hypothesis import given
from hypothesis import strategies as st

from services.ingestion.parsers.parse_markdown import parse_markdown

TEXT = """---
title: "Política de viajes"
---
# Travel policy

Intro with **bold**, a [link](https://example.com) and `code`.

## 2. Expenses

- hotels
  - up to 120 €
1. first
2. second

| City | Limit |
| --- | --- |
| Madrid | 120 \\| 130 |

2.1 Receipts. Keep them all.

```python
x = 1
```

## Other
<p>raw <b>html</b></p>
"""


def test_headings_lists_tables_and_code_become_blocks():
    parsed = parse_markdown(TEXT)
    assert parsed.title == "Política de viajes"
    assert [(block.kind, block.text, block.section[1:]) for block in parsed.blocks] == [
        ("heading", "Travel policy", ()),
        ("paragraph", "Intro with bold, a link and code.", ()),
        ("heading", "2. Expenses", ("2. Expenses",)),
        ("list", "- hotels", ("2. Expenses",)),
        ("list", "  - up to 120 €", ("2. Expenses",)),
        ("list", "1. first", ("2. Expenses",)),
        ("list", "2. second", ("2. Expenses",)),
        ("table", "| City | Limit |\n| --- | --- |\n| Madrid | 120 \\| 130 |", ("2. Expenses",)),
        ("paragraph", "2.1 Receipts. Keep them all.", ("2. Expenses", "2.1 Receipts")),
        ("code", "x = 1", ("2. Expenses", "2.1 Receipts")),
        ("heading", "Other", ("Other",)),
        ("paragraph", "raw html", ("Other",)),
    ]


def test_the_first_heading_is_the_title_where_nothing_else_is():
    assert parse_markdown("# One\n\ntext").title == "One"
    assert parse_markdown("just text").title == ""


@given(st.text("#-*1. |`<>ab\n[]()!_~", max_size=200))
def test_any_text_is_parsed(text):
    parsed = parse_markdown(text)
    assert all(block.text.strip() for block in parsed.blocks)
