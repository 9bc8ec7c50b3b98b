"""What the interpreter of machine code makes of single instructions, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from tests.xe_machine.errors import MachineError
from tests.xe_machine.launch import Binary, global_memory, run
from tests.xe_machine.parser import parse

_END = "(W) send.gtwy (8|M0) null r0 null:0 0x0 0x02000010 {EOT} // wr:1+0, rd:0; end of thread"


def execute(*lines: str, local_memory: int = 0, threads: int = 1, size: int = 256) -> np.ndarray:
    """Run instructions, and return what they have stored at the address in r2 (64 bits) + 4 lane."""
    head = [
        "(W) and (1|M0) r255.0<1>:ud r0.0<0;1,0>:ud 0xFFFFFFC0:ud",
        "send.ugm (1|M0) r2 r255 null:0 0xFF000000 0x6218D500",
        "(W) and (1|M0) r254.0<1>:uw r0.4<0;1,0>:uw 0xFF:uw",
        "(W) mad (1|M0) r255.0<1>:ud r255.0<0;0>:ud r254.0<0;0>:uw 0xC0:uw",
        "(W) add (1|M0) r255.0<1>:ud r255.0<0;1,0>:ud 0x20:uw",
        "send.ugm (1|M0) r4 r255 null:0 0xFF000000 0x6228E500",
        "mov (16|M0) r6.0<4>:uw r4.0<1;1,0>:uw", "mov (16|M0) r6.1<4>:uw 0x0:uw", "mov (16|M0) r6.1<2>:ud 0x0:ud",
        "shl (16|M0) r6.0<1>:q r6.0<1;1,0>:q 2:w", "nop", "add (16|M0) r8.0<1>:q r6.0<1;1,0>:q r2.0<0;1,0>:q",
    ]
    text = "L0:\n" + "".join(f"/* [{16 * place:04X}] */ {line}\n" for place, line in enumerate([*head, *lines, _END]))
    binary = Binary(text, 256, 64, 16, local_memory, 0, (16, threads, 1), (("arg_byvalue", 0, 8, 0),),
                    most_steps=500)
    memory = global_memory()
    address = memory.place("the result", np.zeros(size, np.uint8))
    run(binary, [address], memory, (1, 1, 1))
    return memory.content(address, size)


STORE = "send.ugm (16|M0) null r8 r20:1 0x0 0x04000584"


@pytest.mark.parametrize(("lines", "expected"), [
    (["mov (16|M0) r20.0<1>:d -7:w"], [-7] * 4),
    (["mov (16|M0) r20.0<1>:f -7:w", "mov (16|M0) r20.0<1>:d r20.0<1;1,0>:f"], [-7] * 4),
    (["mov (16|M0) r20.0<1>:ud r4.0<1;1,0>:uw", "shl (16|M0) r20.0<1>:d r20.0<1;1,0>:d 33:w"], [0, 2, 4, 6]),
    (["mov (8|M0) r20.0<2>:ud 0x5:ud", "mov (8|M0) r20.1<2>:ud 0x6:ud"], [5, 6, 5, 6]),
    (["mov (16|M0) r21.0<1>:d -8:w", "shr (16|M0) r20.0<1>:d r21.0<1;1,0>:ud 28:w"], [15] * 4),
    (["mov (16|M0) r21.0<1>:d -8:w", "asr (16|M0) r20.0<1>:d r21.0<1;1,0>:d 1:w"], [-4] * 4),
    (["mov (16|M0) r21.0<1>:ud r4.0<1;1,0>:uw", "cmp (16|M0) (lt)f1.1 null<1>:d r21.0<1;1,0>:ud 0x2:uw",
      "(~f1.1) sel (16|M0) r20.0<1>:d r21.0<1;1,0>:d 9:w"], [9, 9, 2, 3]),
    (["mov (16|M0) r21.0<1>:ud 0x12345678:ud", "(W) mul (16|M0) acc0.0<1>:ud r21.0<1;1,0>:ud 0xAAAB:uw",
      "mach (16|M0) r20.0<1>:ud r21.0<1;1,0>:ud 0xAAAAAAAB:ud"], [0x12345678 * 0xAAAAAAAB >> 32] * 4),
    (["mov (16|M0) r21.0<1>:ud 0x12345678:ud", "(W) mul (16|M0) acc0.0<1>:ud r21.0<1;1,0>:ud 0x1234:uw",
      "mach (16|M0) r22.0<1>:ud r21.0<1;1,0>:ud 0x1234:ud {AccWrEn}", "mov (16|M0) r20.0<1>:ud acc0.0<1;1,0>:ud"],
     [0x12345678 * 0x1234 & 0x7FFFFFFF] * 4),
    (["mov (16|M0) r21.0<1>:d -100000:d", "(W) mul (16|M0) acc0.0<1>:d r21.0<1;1,0>:d 0x86A0:uw",
      "mach (16|M0) r20.0<1>:d r21.0<1;1,0>:d 0x186A0:ud"], [-100000 * 100000 >> 32] * 4),
    (["mov (16|M0) r21.0<1>:ud 0xFFFFFFFF:ud", "addc (16|M0) r22.0<1>:ud r21.0<1;1,0>:ud 0x2:ud {AccWrEn}",
      "mov (16|M0) r20.0<1>:ud acc0.0<1;1,0>:ud"], [1] * 4),
    (["mov (16|M0) r21.0<1>:ud r4.0<1;1,0>:uw", "subb (16|M0) r22.0<1>:ud r21.0<1;1,0>:ud 0x2:ud {AccWrEn}",
      "mov (16|M0) r20.0<1>:ud acc0.0<1;1,0>:ud"], [1, 1, 0, 0]),
    (["mov (16|M0) r21.0<1>:ud 0xC:ud", "bfn.((s0|s1)&s2) (16|M0) r20.0<1>:ud r21.0<1;0>:ud r4.0<1;0>:uw"
      " 0x7:uw"], [4, 5, 6, 7]),
    (["mov (16|M0) r20.0<1>:ud 0x76543210:uv"], [0, 1, 2, 3]),
    (["mov (16|M0) r21.0<1>:ud r4.0<1;1,0>:uw", "bfrev (16|M0) r20.0<1>:ud r21.0<1;1,0>:ud"],
     [0, -(1 << 31), 1 << 30, -(1 << 30)]),
    (["mov (16|M0) r21.0<1>:ud r4.0<1;1,0>:uw", "shl (16|M0) r21.0<1>:d r21.0<1;1,0>:d 30:w",
      "fbl (16|M0) r20.0<1>:ud r21.0<1;1,0>:ud"], [-1, 30, 31, 30]),
    (["fbl (16|M0) r20.0<1>:ud r4.0<1;1,0>:uw"], [-1, 0, 1, 0]),
    (["mov (16|M0) r20.0<1>:f r4.0<1;1,0>:uw", "math.exp (16|M0) r20.0<1>:f r20.0<1;1,0>:f",
      "math.inv (16|M0) r20.0<1>:f r20.0<1;1,0>:f", "mul (16|M0) r20.0<1>:f r20.0<1;1,0>:f 8.0:f",
      "mov (16|M0) r20.0<1>:d r20.0<1;1,0>:f"], [8, 4, 2, 1]),
    (["mov (16|M0) r21.0<1>:f 0xC8384000:vf", "mov (16|M0) r20.0<1>:d r21.0<1;1,0>:f"], [0, 2, 1, -3]),
    (["mov (16|M0) r21.0<1>:f 1.00390625:f", "mov (16|M0) r22.0<1>:bf r21.0<1;1,0>:f",
      "mov (16|M0) r20.0<1>:ud r22.0<1;1,0>:uw"], [0x3F80] * 4),
    (["mov (16|M0) r21.0<1>:f 300.0:f", "mov (16|M0) (sat)r22.0<4>:ub r21.0<1;1,0>:f",
      "mov (16|M0) r20.0<1>:ud r22.0<4;1,0>:ub"], [255] * 4),
])
def test_arithmetic(lines: list[str], expected: list[int]) -> None:
    assert execute(*lines, STORE).view(np.int32)[:4].tolist() == expected


@pytest.mark.parametrize(("lines", "expected"), [
    # One channel: its address is in two registers, and so is an element of 64 bits.
    (["(W) mov (1|M0) r20.0<1>:ud 0x7:ud", STORE.replace("16|M0", "1|M0")], [7, -1, -1]),
    (["(W) mov (2|M0) r20.0<1>:ud 0x7:ud", "send.ugm (1|M0) null r8 r20:2 0x0 0x04000784"], [7, 7, -1]),
    (["(W) mov (1|M0) r20.0<1>:ud 0x7:ud", STORE.replace("16|M0", "1|M0"),
      "send.ugm (1|M0) r22 r8 null:0 0x0 0x04100B80", "(W) add (1|M0) r20.0<1>:d r22.0<0;1,0>:d 1:w",
      STORE.replace("16|M0", "1|M0")], [8, -1, -1]),
    # Two elements of a channel are as far apart as those of 16.
    (["(W) mov (1|M0) r20.0<1>:ud 0x7:ud", "(W) mov (1|M0) r21.0<1>:ud 0x9:ud",
      "send.ugm (1|M0) null r8 r20:2 0x0 0x04001584"], [7, 9, -1]),
])
def test_messages_of_one_channel_take_the_registers_of_all(lines: list[str], expected: list[int]) -> None:
    fill = ["mov (16|M0) r20.0<1>:d -1:w", STORE]
    assert execute(*fill, *lines).view(np.int32)[:3].tolist() == expected


def test_channels_wait_for_the_join() -> None:
    """The first four leave, the others go on and come after them; then all are on again."""
    place = 16 * 12
    lines = [
        "mov (16|M0) r20.0<1>:d 1:w", "mov (16|M0) r21.0<1>:ud r4.0<1;1,0>:uw",
        "cmp (16|M0) (lt)f0.0 null<1>:d r21.0<1;1,0>:ud 0x2:uw",
        f"(f0.0) goto (16|M0) L{place + 16 * 5} L{place + 16 * 5}", "mov (16|M0) r20.0<1>:d 2:w",
        f"join (16|M0) L{place + 16 * 6}", "add (16|M0) r20.0<1>:d r20.0<1;1,0>:d 10:w",
    ]
    assert execute(*lines, STORE).view(np.int32)[:4].tolist() == [11, 11, 12, 12]


def test_channels_go_round_a_loop_until_each_is_through() -> None:
    """Each adds 10 as often as its number says, once at least; then all are on again."""
    place = 16 * 12
    lines = [
        "mov (16|M0) r20.0<1>:d 0:w", "mov (16|M0) r21.0<1>:ud r4.0<1;1,0>:uw",
        "add (16|M0) r20.0<1>:d r20.0<1;1,0>:d 10:w", "add (16|M0) r21.0<1>:d r21.0<1;1,0>:d -1:w",
        "cmp (16|M0) (gt)f0.0 null<1>:d r21.0<1;1,0>:d 0:w",
        f"(f0.0) goto.b (16|M0) L{place + 16 * 6} L{place + 16 * 2}", f"join (16|M0) L{place + 16 * 7}",
        "add (16|M0) r20.0<1>:d r20.0<1;1,0>:d 1:w",
    ]
    assert execute(*lines, STORE).view(np.int32)[:4].tolist() == [11, 11, 21, 31]


@pytest.mark.parametrize("labels", [(16 * 20, 0), (16 * 19, 16 * 20)], ids=["not the next one", "forwards"])
def test_other_forms_of_the_end_of_a_loop_are_refused(labels: tuple[int, int]) -> None:
    lines = ["nop"] * 6 + ["(f0.0) goto.b (16|M0) L{} L{}".format(*labels)] + ["nop"] * 6
    with pytest.raises(MachineError, match="this form of goto is not known"):
        execute(*lines, STORE)


#: A comparison in one channel, whose flag is kept in a register while another takes its place.
_KEPT = [
    "(W) cmp (1|M0) (eq)f0.0 null<1>:d r5.0<0;1,0>:uw r5.0<0;1,0>:uw", "(W) mov (1|M0) r30.4<1>:uw f0.0<0;1,0>:uw",
    "(W) cmp (16|M0) (ne)f0.0 null<1>:d r5.0<0;1,0>:uw r5.0<0;1,0>:uw", "(W) mov (1|M0) f0.0<1>:uw r30.4<0;1,0>:uw",
]


def test_a_flag_of_one_channel_comes_back_from_a_register() -> None:
    lines = [*_KEPT, "(W&f0.0) sel (1|M0) r31.0<1>:d 7:w 0:w", "mov (16|M0) r20.0<1>:d r31.0<0;1,0>:d", STORE]
    assert execute(*lines).view(np.int32)[:16].tolist() == [7] * 16


@pytest.mark.parametrize("lines", [
    [*_KEPT, "(f0.0) mov (16|M0) r20.0<1>:d 1:w"],
    [*_KEPT[:3], "(W) mov (1|M0) r30.4<1>:uw r40.0<0;1,0>:uw", _KEPT[3], "(W&f0.0) mov (1|M0) r20.0<1>:d 1:w"],
], ids=["the other channels", "something else in the register"])
def test_flags_that_had_no_value_have_none_when_they_come_back(lines: list[str]) -> None:
    with pytest.raises(MachineError, match="a flag that decides has no value"):
        execute(*lines)


def test_a_register_is_read_at_an_address_that_was_computed() -> None:
    lines = ["(W) mov (1|M0) r30.2<1>:uw 6:w", "(W) add (1|M0) a0.0<1>:uw r30.2<0;1,0>:uw 0x100:uw",
             "mov (16|M0) r20.0<1>:ud r[a0.0]<0;1,0>:uw", STORE]
    assert execute(*lines).view(np.int32)[:16].tolist() == [3] * 16
    displaced = [lines[0], "(W) add (1|M0) a0.0<1>:uw r30.2<0;1,0>:uw 0x90:uw",
                 "mov (16|M0) r20.0<1>:d -r[a0.0,112]<0;1,0>:uw", STORE]
    assert execute(*displaced).view(np.int32)[:16].tolist() == [-3] * 16


@pytest.mark.parametrize(("lines", "why"), [
    (["frc (16|M0) r20.0<1>:f r4.0<1;1,0>:f"], "this instruction is not known"),
    (["mov (16|M0) r20.0<1>:d r4.0<1;1,0>:uw {Serialize}"], "the option 'Serialize' is not known"),
    (["mov (16|M0) r20.0<1>:d r[a0.0]<1;1,0>:uw"], "the operand .* is not known"),
    (["send.ugm (16|M0) r20 r8 null:0 0x0 0x0410058C"], "operation 0xc of messages to memory is not known"),
    (["send.tgm (16|M0) r20 r8 null:0 0x0 0x04100580"], "messages to tgm are not known"),
    (["dpas.8x8 (16|M0) r20:f r20:f r30:bf r40.0:b"], "dpas of these types is not known"),
    (["mov (16|M0) r20.0<1>:d 1:w", STORE.replace("r8", "r9")], "has no value|of memory"),
    ([STORE], "stores what has no value"),
    (["add (16|M0) r20.0<1>:d r30.0<1;1,0>:d 1:w", STORE], "stores what has no value"),
    (["cmp (16|M0) (lt)f0.0 null<1>:d r30.0<1;1,0>:d 1:w", "(W&f0.0) jmpi L0"], "a flag that decides has no value"),
    (["mov (16|M0) r20.0<1>:d 1:w", "add (16|M0) r8.0<1>:q r8.0<1;1,0>:q 224:w", STORE],
     "writes 4 bytes at .*: byte 256 of the result, which has 256"),
    (["mov (16|M0) r20.0<1>:d 1:w", STORE.replace("0x04000584", "0x04001584")], "of 2 registers that says 1"),
    ([f"jmpi L{16 * 12}"], "no end after"),
    (["mov (16|M0) r20.0<1>:d 1:w", STORE.replace("0x04", "0x02")], "the address takes 1 registers, not 2"),
    (["mov (16|M0) r20.0<1>:d 1:w", STORE.replace("0x04", "0x02").replace("16|M0", "1|M0")],
     "the address takes 1 registers, not 2"),
    (["bfrev (16|M0) r20.0<1>:uw r4.0<1;1,0>:uw"], "reversing bits of other sizes"),
    (["fbl (16|M0) r20.0<1>:ud r4.0<1;1,0>:w"], "the lowest bit of signed"),
    (["mov (1|M0) r20.0<1>:ud r[a0.0]<0;1,0>:uw"], "a register's address has no value"),
    (["mov (1|M0) a0.0<1>:uw 0x4000:uw", "mov (1|M0) r20.0<1>:ud r[a0.0]<0;1,0>:uw"], "no place of 2 bytes"),
    (["mov (1|M0) a0.0<1>:uw 0x41:uw", "mov (1|M0) r20.0<1>:ud r[a0.0]<0;1,0>:uw"], "no place of 2 bytes"),
    (["mov (1|M0) a0.0<1>:uw 0x780:uw", "mov (16|M0) r20.0<1>:ud r[a0.0]<0;1,0>:uw", STORE],
     "stores what has no value"),
])
def test_what_is_wrong_or_not_known_is_an_error(lines: list[str], why: str) -> None:
    with pytest.raises(MachineError, match=why):
        execute(*lines)


def test_a_line_that_is_no_instruction_is_an_error() -> None:
    with pytest.raises(MachineError, match="this line is no instruction"):
        parse("L0:\nsomething else\n")


_BARRIER = ["(W) mov (8|M0) r30.0<1>:ud 0x0:ud", "(W) mov (2|M0) r30.10<1>:ub r0.11<0;1,0>:ub",
            "(W) send.gtwy (1|M0) null r30 null:0 0x0 0x02000004", "(W) sync.bar 0x0"]
_SHARED = [
    "mov (16|M0) r10.0<1>:ud r5.0<0;1,0>:uw", "mov (16|M0) r11.0<1>:ud r4.0<1;1,0>:uw",
    "shl (16|M0) r12.0<1>:d r11.0<1;1,0>:d 2:w", "(W) shl (1|M0) r14.0<1>:d r5.0<0;1,0>:uw 6:w",
    "add (16|M0) r13.0<1>:d r12.0<1;1,0>:d r14.0<0;1,0>:d",
    "send.slm (16|M0) null r13 r10:1 0x0 0x02000504",
]
_OTHER = ["xor (16|M0) r15.0<1>:d r13.0<1;1,0>:d 64:w", "send.slm (16|M0) r20 r15 null:0 0x0 0x02100500"]


def test_what_another_sub_group_wrote_is_read_behind_a_barrier() -> None:
    lines = [*_SHARED, *_BARRIER, *_OTHER, "shl (16|M0) r16.0<1>:d r5.0<0;1,0>:uw 6:w",
             "mov (16|M0) r17.0<2>:d r16.0<1;1,0>:d", "mov (16|M0) r17.1<2>:d 0:w",
             "add (16|M0) r8.0<1>:q r8.0<1;1,0>:q r17.0<1;1,0>:q", STORE]
    found = execute(*lines, local_memory=128, threads=2).view(np.int32)
    assert found[:32].tolist() == [1] * 16 + [0] * 16


def test_single_elements_are_read_from_any_address_of_local_memory() -> None:
    """Not stored: the compiler was never seen to do so."""
    move, fill = "add (16|M0) r13.0<1>:d r13.0<1;1,0>:d 2:w", "mov (16|M0) r10.0<1>:ud 0x20001:ud"
    first = [*_SHARED[:-1], fill, _SHARED[-1]]
    last = "send.slm (16|M0) null r13 r10:1 0x0 0x02000504"
    again = ["add (16|M0) r13.0<1>:d r13.0<1;1,0>:d 4:w", last, "add (16|M0) r13.0<1>:d r13.0<1;1,0>:d -4:w"]
    found = execute(*first, *again, move, "send.slm (16|M0) r20 r13 null:0 0x0 0x02100500", STORE, local_memory=68)
    assert found.view(np.int32)[:16].tolist() == [0x10002] * 16
    with pytest.raises(MachineError, match="an address that is no multiple of 4"):
        execute(*first, move, last, local_memory=128)


@pytest.mark.parametrize(("lines", "why"), [
    ([*_SHARED, *_OTHER, *_BARRIER, *_BARRIER], "without a barrier between|stores what has no value"),
    ([*_SHARED, "(W) sync.bar 0x0"], "waits at a barrier that it has not reached"),
    ([*_SHARED, "(W) cmp (1|M0) (eq)f0.0 null<1>:d r5.0<0;1,0>:uw 0:w", f"(W&f0.0) jmpi L{16 * (12 + 12)}", *_BARRIER],
     "wait at a barrier that others do not reach"),
    ([*_SHARED, "add (16|M0) r13.0<1>:d r13.0<1;1,0>:d 128:w", _SHARED[-1]], "byte 128 of local memory"),
])
def test_races_and_barriers_that_do_not_fit_are_errors(lines: list[str], why: str) -> None:
    with pytest.raises(MachineError, match=why):
        execute(*lines, local_memory=128, threads=2)
