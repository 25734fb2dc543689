"""Lazy imports of the public names of a package (PEP 562).

The ``__init__.py`` lists its names once, in imports that only type checkers run:

    if TYPE_CHECKING:
        from .aliases import promote as promote
    else:
        __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
"""

from __future__ import annotations

import re
import sys
from importlib import import_module

TYPE_CHECKING = False  # see ``__init__.py``
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_LISTED = re.compile(r"^    from (\.[\w.]*) import (\w+) as \2\b", re.MULTILINE)


def lazy_names(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` for an ``__init__.py``."""
    spec: Any = sys.modules[package].__spec__
    source = spec.loader.get_data(file).decode()  # also works inside a wheel
    homes = {name: home for home, name in _LISTED.findall(source)}

    def get(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if home == ".":
            return import_module(f".{name}", package)
        value = getattr(import_module(home, package), name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted({*vars(sys.modules[package]), *homes}), sorted(homes)
