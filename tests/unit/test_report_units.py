import pytest

from stepscope.reports import units


@pytest.mark.parametrize(
    ("ns", "reads"),
    [
        (None, "unknown"),
        (0, "0 ns"),
        (7, "7 ns"),
        (999, "999 ns"),
        (1_000, "1.00 µs"),
        (999_600, "1.00 ms"),  # never "1000 µs"
        (59_262_000, "59.3 ms"),
        (177_592_000, "178 ms"),
        (-2_500_000, "-2.50 ms"),
        (61_000_000_000, "1.02 min"),
        (7_200_000_000_000, "2.00 h"),
    ],
)
def test_durations_have_three_digits_and_a_unit(ns, reads):
    assert units.duration(ns) == reads


def test_sizes_are_binary_and_rates_decimal():
    assert units.size(3 * 2**30) == "3.00 GiB"
    assert units.size(1000) == "1000 B"
    assert units.size(None) == "unknown"
    assert units.rate(187.9e9) == "188 GB/s"
    assert units.rate(None) == "unknown"


def test_a_small_share_is_not_shown_as_none():
    assert units.share(0.0002) == "<0.1 %"
    assert units.share(0) == "0.0 %"
    assert units.share(0.3337) == "33.4 %"
    assert units.share(None) == "unknown"


def test_the_title_keeps_every_nanosecond():
    assert units.exact(1_760_000_000_000_000_001, "ns") == "1,760,000,000,000,000,001 ns"


def test_control_characters_neither_steer_a_terminal_nor_vanish():
    assert units.printable("a\x1b[31m\u202eb\nc") == "a\ufffd[31m\ufffdb\ufffdc"
    assert units.printable("ядро ∇ 核") == "ядро ∇ 核"


def test_a_cut_is_marked_with_the_full_length():
    assert units.clip("k" * 10_000, 5) == "kkkkk… (10,000 characters)"
