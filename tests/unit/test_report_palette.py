"""Neighbours in the stack stay apart for readers with either kind of red-green blindness."""

import itertools

import numpy as np
import pytest

from stepscope.ingest.schema import LEDGER_CATEGORIES
from stepscope.reports import palette

# Machado, Oliveira and Fernandes (2009), severity 1.0, on linear RGB.
BLINDNESS = {
    "none": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = XYZ @ np.ones(3)


def lab(colour: str, blindness: np.ndarray) -> np.ndarray:
    rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = XYZ @ np.clip(blindness @ linear, 0, 1) / WHITE
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("blindness", BLINDNESS)
def test_neighbours_in_the_stack_can_be_told_apart(theme, blindness):
    stack = [getattr(palette.TONES[name], theme) for name in palette.ORDER]
    for one, other in itertools.pairwise(lab(colour, BLINDNESS[blindness]) for colour in stack):
        assert np.linalg.norm(one - other) > 18


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("blindness", BLINDNESS)
def test_no_two_categories_look_the_same(theme, blindness):
    stack = [getattr(palette.TONES[name], theme) for name in palette.ORDER]
    for one, other in itertools.combinations((lab(colour, BLINDNESS[blindness]) for colour in stack), 2):
        assert np.linalg.norm(one - other) > 11


def test_every_category_has_a_tone():
    assert set(LEDGER_CATEGORIES) <= set(palette.TONES)


@pytest.mark.parametrize(
    ("kind", "category"), [("host_bound", "host"), ("host_sync", "sync"), ("allocator_stall", "allocator")]
)
def test_a_finding_wears_the_colour_of_its_category(kind, category):
    assert palette.of_finding(kind) == palette.variable(category)
