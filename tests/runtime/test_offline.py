"""Code for Intel GPUs, compiled offline and read."""

import pytest

from tl_dpnp.errors import LoweringError, UnsupportedError
from tl_dpnp.kernels.dpas.rows import rows
from tl_dpnp.kernels.llvm import new_module
from tl_dpnp.runtime.offline import dpas_table, tools
from tl_dpnp.runtime.offline.targets import TARGETS, target_named
from tl_dpnp.runtime.spirv import translate

missing = tools.missing_tools()
needs_tools = pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)} (make tools)")


@needs_tools
@pytest.mark.parametrize("name", TARGETS)
def test_every_reachable_dpas_becomes_the_instruction(name):
    target = TARGETS[name]
    reports = dpas_table.check_rows(target)
    assert [report.row for report in reports] == list(rows(target.description.dpas_lanes))
    faults = {str(report.row): report.faults for report in reports if report.faults}
    assert not faults
    assert sum(report.unreachable is None for report in reports) == {"pvc": 217, "dg2": 190}[name]


@needs_tools
def test_the_wrong_execution_size_is_found():
    """The compiler accepts names of the other generation and makes something else of them, or refuses."""
    narrow = TARGETS["dg2"]
    faulty = [row for row in rows(16) if row.name == "dpas_f32_bf16_bf16_8x16x16"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dpas_table, "rows", lambda size: faulty)
        (report,) = dpas_table.check_rows(narrow)
    assert "0 dpas" in report.faults


def test_a_missing_tool_is_named_with_its_package(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnsupportedError, match=r"ocloc is needed .* Debian's package intel-opencl-icd"):
        tools.compile_binary(b"", "pvc")
    assert set(tools.missing_tools()) == set(tools.TOOLS)


@needs_tools
def test_what_the_tools_refuse_is_an_error():
    with pytest.raises(LoweringError, match="ocloc"):
        tools.compile_binary(b"nothing", "pvc")
    with pytest.raises(LoweringError, match="not valid SPIR-V"):
        tools.validate_spirv(b"nothing")
    tools.validate_spirv(translate(str(new_module("empty"))))


def test_other_devices_are_refused():
    with pytest.raises(UnsupportedError, match="only for pvc, dg2"):
        target_named("gen9")
