"""Branches and loops in which work-items wait: what decides them is not copied into branches of some work-items."""

from __future__ import annotations

import numpy as np
import pytest

from tests.semantics.support import TARGETS, fortran, whole
from tests.semantics.test_work_items import check

BRANCH = "if {condition} {{ {barrier} axpby.n 1, %t, 0, %u }}"


@pytest.mark.drawn(pairs=True)
@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("barriers", [(), (0,), (1,), (0, 1)], ids=str)
@pytest.mark.parametrize("taken", [(0, 1), (1, 0), (1, 1), (0, 0)], ids=str)
def test_branches_between_instructions_of_some_work_items(target, barriers, taken):
    """LLVM threaded jumps through the branches, and Intel's runtime for CPUs stored to wrong addresses behind them."""
    branches = "\n".join(
        f"%d{place} = load %p{place}[0] : i8  %c{place} = not_equal %d{place}, 0 : bool  "
        + BRANCH.format(condition=f"%c{place}", barrier="barrier" if place in barriers else "") for place in (0, 1))
    check(target, f"""func @f(%a: memref<i16x8x5>, %z: memref<i16x96x?>, %y: memref<u8x96x?>) {{
        %t = alloca : memref<i16x8x5,local>  %u = alloca : memref<i16x8x5,local>  %w = alloca : memref<u8x16x8,local>
        %n = alloca : memref<indexx16,local>  %p0 = alloca : memref<i8x16,local>  %p1 = alloca : memref<i8x16,local>
        foreach (%i, %j) = (0, 0), (16, 8) {{ store 2, %w[%i, %j] }}
        foreach (%i) = (0), (16) {{ store 0, %n[%i] store {taken[0]}, %p0[%i] store {taken[1]}, %p1[%i] }}
        axpby.n 1, %a, 0, %t
        axpby.n 2, %a, 0, %u
        {branches}
        %k = load %n[0] : index
        %v = subview %z[0:8, %k:5] : memref<i16x8x5,strided<1,96>>
        axpby.n 1, %t, 0, %v
        %x = subview %y[0:16, %k:8] : memref<u8x16x8,strided<1,96>>
        axpby.n 1, %w, 0, %x
        %s = subview %z[64:8, %k:5] : memref<i16x8x5,strided<1,96>>
        axpby.n 1, %u, 0, %s
    }}""", whole(1, 8, 5, dtype="int16"), fortran(np.zeros((96, 72)), "i2"), fortran(np.zeros((96, 72)), "u1"))


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("trips", [0, 1, 3])
def test_loops_between_instructions_of_some_work_items(target, trips):
    check(target, """func @f(%l: index, %a: memref<i16x8x5>, %z: memref<i16x96x?>, %y: memref<u8x96x?>) {
        %t = alloca : memref<i16x8x5,local>  %u = alloca : memref<i16x8x5,local>  %n = alloca : memref<indexx16,local>
        foreach (%i) = (0), (16) { store 0, %n[%i] }
        axpby.n 1, %a, 0, %t
        axpby.n 2, %a, 0, %u
        for %i = 0, %l { axpby.n 1, %t, 1, %u  barrier  axpby.n 1, %u, 1, %t }
        %k = load %n[0] : index
        %v = subview %z[0:8, %k:5] : memref<i16x8x5,strided<1,96>>
        axpby.n 1, %t, 0, %v
        %x = subview %y[0:16, %k:8] : memref<u8x16x8,strided<1,96>>
        foreach (%i, %j) = (0, 0), (16, 8) { store 3, %x[%i, %j] }
        %s = subview %z[64:8, %k:5] : memref<i16x8x5,strided<1,96>>
        axpby.n 1, %u, 0, %s
    }""", trips, whole(1, 8, 5, dtype="int16"), fortran(np.zeros((96, 72)), "i2"), fortran(np.zeros((96, 72)), "u1"))
