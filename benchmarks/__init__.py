"""Ratios and bounds, measured side by side in one run: ``python -m benchmarks``."""
