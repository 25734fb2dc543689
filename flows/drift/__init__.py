"""Drift: new text counted, measured against a version, told and remembered."""
