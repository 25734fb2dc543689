"""Public names of a package, imported when they are first asked for (PEP 562).

A package that loads everything it offers makes every command wait for libraries that it does not
need. Its ``__init__.py`` lists its names once, as imports that only type checkers run:

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
    """What a package needs to import the names that it lists when they are asked for.

    Args:
        package: its name.
        file: its ``__init__.py``, where they are listed.

    Returns:
        Its ``__getattr__``, ``__dir__`` and ``__all__``.
    """
    spec: Any = sys.modules[package].__spec__
    source = spec.loader.get_data(file).decode()  # a file, or a part of the wheel of the core
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
