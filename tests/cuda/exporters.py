"""Arrays that offer DLPack only, for tests: their memory is NumPy's or CuPy's."""

from __future__ import annotations

import ctypes

_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
#: Where ``DLManagedTensorVersioned`` has the ``DLTensor``, and that its device type.
_TENSOR, _DEVICE = 32, 8


class Exporter:
    """An array of another package; one of NumPy claims to be on a device of DLPack type `place`."""

    def __init__(self, array, place=2):
        self.array, self.place = array, place
        self.streams = []

    @property
    def ndim(self):
        return self.array.ndim

    @property
    def shape(self):
        return self.array.shape

    def __dlpack_device__(self):
        return self.place, 0

    def __dlpack__(self, *, stream=None, max_version=None, **options):
        self.streams.append(stream)
        capsule = self.array.__dlpack__(max_version=max_version)
        if type(self.array).__module__ == "numpy":
            address = _pointer_of(capsule, b"dltensor_versioned")
            ctypes.c_int32.from_address(address + _TENSOR + _DEVICE).value = self.place
        return capsule


class CupyExporter(Exporter):
    """An array of CuPy that is seen as one of a package that offers DLPack only."""

    def __dlpack__(self, *, stream=None, **options):
        self.streams.append(stream)
        return self.array.__dlpack__(stream=stream, **options)
