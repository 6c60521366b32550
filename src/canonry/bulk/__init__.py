"""Columns instead of single URLs."""
