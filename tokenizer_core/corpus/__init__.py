"""Files become chunks of documents: which files, where to cut, what is kept from counting."""
