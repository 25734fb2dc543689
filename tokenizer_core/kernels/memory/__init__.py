"""Types of arguments, and memory at addresses."""
