"""Servers of a workspace: request authentication and process lifetime."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bpeline.lazy_names import lazy_names

if TYPE_CHECKING:
    from .gate import SECRET_VARIABLE as SECRET_VARIABLE
    from .gate import Gate as Gate
    from .gate import is_gated as is_gated
    from .gate import serve_application as serve_application
    from .lifeline import end_family as end_family
    from .lifeline import end_with_parent as end_with_parent
    from .lifeline import ending_orphans as ending_orphans
    from .lifeline import left_behind as left_behind
    from .lifeline import parent_variable as parent_variable
    from .sign_in import sign_in_token as sign_in_token
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
