"""Trainers: word counts in, merges out; one file per algorithm."""
