"""Answers shown: the HTML page, the terminal's verdict, JSON for machines. Reads a run, decides nothing.

The page is a list of sections (``sections/``, one file each); a section asks the run named questions through
a ``Book`` and returns blocks; ``html.py`` sets them. Every number keeps the question it answers.
"""
