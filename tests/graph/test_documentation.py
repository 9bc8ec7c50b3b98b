"""The tutorial's Python runs, as one program."""

import pathlib
import re

from tests.graph.support import with_source


def test_the_tutorial_runs(capsys):
    text = (pathlib.Path(__file__).parents[2] / "docs" / "fusion.md").read_text()
    names: dict[str, object] = {}
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL)):
        exec(with_source(block, f"<block {number} of the tutorial>", "exec"), names)
    assert "4 operations became 1 kernel" in capsys.readouterr().out
