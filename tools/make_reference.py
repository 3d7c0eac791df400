"""Makes the documents that say what the code says, so that they say what is so.

`--check` changes nothing, and fails for each document that is not what would be written.
`reference_pages` has the documents.
"""

import sys
from pathlib import Path

from reference_pages import PAGES

DOCS = Path(__file__).resolve().parent.parent / "docs"


def main(arguments: list[str]) -> int:
    """Write the documents, or with `--check` say which are not what would be written."""
    stale = 0
    for name, make_page in PAGES.items():
        path, text = DOCS / name, make_page()
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        if "--check" in arguments:
            print(f"docs/{name} is not what the code says: run `make docs`")
            stale = 1
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"docs/{name}")
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
