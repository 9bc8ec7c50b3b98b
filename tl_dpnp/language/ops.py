"""All names of the IR: what it consists of, and the class of each instruction."""

from tl_dpnp.language.instructions.algebra import *
from tl_dpnp.language.instructions.atomics import *
from tl_dpnp.language.instructions.control import *
from tl_dpnp.language.instructions.mathematics import *
from tl_dpnp.language.instructions.matrices import *
from tl_dpnp.language.instructions.matrix_accesses import *
from tl_dpnp.language.instructions.matrix_apply import *
from tl_dpnp.language.instructions.memory import *
from tl_dpnp.language.instructions.parallel import *
from tl_dpnp.language.instructions.scalar import *
from tl_dpnp.language.instructions.subgroups import *
from tl_dpnp.language.instructions.views import *
from tl_dpnp.language.ir import *

#: The class of each instruction of the language.
INSTRUCTIONS: tuple[type[Operation], ...] = tuple(
    kind for kind in vars().values()
    if isinstance(kind, type) and issubclass(kind, Operation) and hasattr(kind, "mnemonic")
)
