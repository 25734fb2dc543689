"""One page of HTML about a version, which needs nothing else: no network, no other file."""
