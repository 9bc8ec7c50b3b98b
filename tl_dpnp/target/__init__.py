"""What kernels are made for: devices and the cores of processors, as data, and a catalogue of them."""

from tl_dpnp.target.core import Core
from tl_dpnp.target.device import Device

__all__ = ["Core", "Device"]
