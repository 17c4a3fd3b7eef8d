"""Experiments with planted faults whose right answer is known."""
