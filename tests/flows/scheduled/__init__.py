"""A package, so that its tests share one server, which is stopped after the last of them."""
