"""Versions in other tools' formats, each compared in the tool it is made for."""
