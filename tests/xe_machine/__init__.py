"""Machine code of Intel's Xe generations, executed instruction by instruction.

`launch.run` takes a binary of the offline compiler and its disassembly, sets the registers and the memory that the
driver would, and executes every thread of every work-group.  What is unknown raises `MachineError`: nothing is skipped.

- `parser` makes instructions of the disassembler's text, `operands` and `types` what they read and write;
- `registers` is the state of a thread: bytes, which of them have a value, flags, accumulators;
- `alu` and `dpas` compute, `messages`, `blocks` and `dataport` move data, `memory` knows what may be touched;
- `thread` has control flow, `launch` the payload, the work-groups and their barriers.

Sources: Intel's "Programmer's Reference Manual" for Xe (volumes "EU ISA" and "3D-Media-GPGPU"), the text of iga64, the
documentation of ZEBIN, and where these say nothing the code that the compiler makes.  What an instruction does is this
package's reading of them.
"""
