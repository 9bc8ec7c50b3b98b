"""Start-up hook: prepares shared libraries when dpctl or dpnp is first imported, in whatever order.

`tl_dpnp.pth` imports this module at every interpreter start, so it holds next to nothing: a finder that
watches for two names and finds no module itself.  The work is in `tl_dpnp.runtime.bootstrap`.  Nothing here may
stop the interpreter or an import; what went wrong is kept in `failure` and shown by ``python -m tl_dpnp -s``.
"""

import sys

PACKAGES = frozenset({"dpctl", "dpnp"})

failure: "Exception | None" = None


class LibraryFinder:
    """Meta-path finder that calls `tl_dpnp.runtime.bootstrap.prepare` and leaves finding to the others."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Prepare the libraries of `name` if it is one of `PACKAGES`; always return None."""
        if name in PACKAGES:
            try:
                from tl_dpnp.runtime import bootstrap

                bootstrap.prepare(name)
            except Exception as error:  # an import of dpnp must give its own error, not ours
                global failure
                failure = error


def install() -> None:
    """Put the finder in front of the others, once."""
    if LibraryFinder not in sys.meta_path:
        sys.meta_path.insert(0, LibraryFinder)


install()
