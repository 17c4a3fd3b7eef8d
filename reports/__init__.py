"""Answers shown: HTML, terminal, JSON."""
