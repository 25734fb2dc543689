"""The folder of a workspace: its paths, its lock, who works in it, what can go."""
