"""What is written about units is so."""

import re
from pathlib import Path

import pytest

from sits.spec import load_unit

ROOT = Path(__file__).parents[3]
HOWTO = ROOT / "docs" / "howto" / "write-a-unit.md"


@pytest.mark.parametrize(
    "part", re.findall(r"```yml\n(.*?)```", HOWTO.read_text("utf-8"), re.DOTALL)
)
def test_parts_of_units_in_the_howto_load(part: str) -> None:
    loaded = load_unit(f"name: a\nmodel: builtin://x\n{part}", "part")
    assert all("not acted on" in note for note in loaded.notes)
    assert loaded.notes


def test_the_example_for_a_cluster_is_the_one_for_a_machine() -> None:
    texts = [
        (ROOT / "examples" / name).read_text("utf-8") for name in ("cluster.yaml", "chat.yaml")
    ]
    one, other = (load_unit(text, "example") for text in texts)
    assert one == other
