"""Experiments with a planted cause of known size: does Stepscope name it, and how large does it say it is?"""
