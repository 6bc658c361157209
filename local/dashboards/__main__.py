"""`python -m local.dashboards` writes the dashboards into the chart."""

import json
from pathlib import Path

from local.dashboards.pages import DASHBOARDS

FOLDER = Path("charts/sabueso/dashboards")


def texts() -> dict[str, str]:
    """File name → content."""
    return {f"{one.name}.json": json.dumps(one.to_json(), indent=1, ensure_ascii=False) + "\n" for one in DASHBOARDS}


def main() -> None:
    """Writes them all, and takes away what is no longer one."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("*.json"):
        old.unlink()
    for name, text in texts().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
