"""The tutorial's Python runs, as one program."""

import pathlib
import re


def test_the_tutorial_runs(capsys):
    text = (pathlib.Path(__file__).parents[2] / "docs" / "fusion.md").read_text()
    names: dict[str, object] = {}
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL)):
        exec(compile(block, f"block {number}", "exec"), names)
    assert "4 operations became 1 kernel" in capsys.readouterr().out
