"""The benchmarks run under asv, with a case or two each."""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.drawing import seed_of

ROOT = Path(__file__).parents[2]
#: One track of each section, which measures it; the others read more numbers of the same measurement.
TRACKS = r"track_value|CacheResident|Call\.|InnerLoop\.track_fma_share|Import|cold_start"


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="asv needs a git checkout")
def test_the_benchmarks_run(tmp_path, request):
    """asv exits with 2 if a benchmark fails.  It keeps a description of the machine in the home folder.

    A sixth of the files is drawn, others for each commit; all of them run with --every-row.
    """
    files = sorted(path.stem for path in (ROOT / "asv_bench" / "benchmarks").glob("bench_*.py"))
    if not request.config.getoption("--every-row"):
        files = random.Random(f"{seed_of(request.config)} asv").sample(files, len(files) // 6)
    folder = tmp_path / "asv_bench"
    shutil.copytree(ROOT / "asv_bench", folder, ignore=shutil.ignore_patterns(".asv", "__pycache__"))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    config = folder / "asv.conf.json"
    config.write_text(config.read_text().replace('"repo": ".."', f'"repo": "{ROOT}"'))
    environment = {**os.environ, "HOME": str(tmp_path), "TL_DPNP_BENCH": "quick", "PYTHONPATH": str(ROOT)}
    asv = [sys.executable, "-m", "asv"]
    subprocess.run([*asv, "machine", "--yes"], cwd=folder, env=environment, check=True, capture_output=True)
    result = subprocess.run(
        [*asv, "run", "--quick", "--python=same", "--launch-method=spawn", "--show-stderr", "--bench",
         rf"({'|'.join(files)})\..*({TRACKS})"],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-1000:]
    assert "failed" not in result.stdout
    assert [name for name in files if f"{name}." not in result.stdout] == []
