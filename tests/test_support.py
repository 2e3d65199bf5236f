"""docs/support.md says what is measured today."""

import re

import pytest

from reference import fixtures
from tests.tools import make_support


@pytest.fixture(scope="module")
def measured(ingot):
    return make_support.measure_all(ingot)


def rows_of(page):
    return {cells[0]: cells for cells in (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.splitlines() if line.startswith("| "))}


def without_bounds(text):
    return re.sub(r"\d+e-\d+", "BOUND", text)


def bounds(cells):
    return [float(bound) for cell in cells for bound in re.findall(r"\d+e-\d+", cell)]


def test_every_claim_is_todays(measured):
    """All words and counts equal; each measured error within its bound, and no bound that
    today's program could halve many times over."""
    page, today = make_support.PAGE.read_text(), make_support.render(*measured)
    assert without_bounds(page) == without_bounds(today), "docs/support.md is stale"
    claimed = rows_of(page)
    for name, row in (measured[0] | measured[1]).items():
        legs = [row.program, row.numpy, row.gguf]
        for bound, leg in zip(bounds(claimed[name]), legs, strict=True):
            assert leg.error <= bound <= max(30 * leg.error, 1e-6), (name, bound, leg)


def test_every_family_matches_in_full(measured):
    assert list(measured[0]) == fixtures.ALL_NAMES and list(measured[1]) == fixtures.LONG_NAMES
    for name, row in measured[0].items():
        assert {row.program.equal, row.numpy.equal, row.gguf.equal} == {make_support.N_TOKENS}, name
        assert max(row.program.error, row.gguf.error, row.numpy.error) < fixtures.tolerance(name)
    for row in measured[1].values():
        assert max(row.program.error, row.gguf.error, row.numpy.error) < fixtures.LONG_TOLERANCE


def test_a_stale_page_is_noticed(measured, tmp_path, monkeypatch):
    page = make_support.PAGE.read_text()
    for old, new in [("96 of 96", "95 of 96"), ("3e-05", "1e-09"), ("| mixtral ", "| mixtral2 ")]:
        assert old in page
        stale = tmp_path / "support.md"
        stale.write_text(page.replace(old, new, 1))
        monkeypatch.setattr(make_support, "PAGE", stale)
        with pytest.raises(AssertionError):
            test_every_claim_is_todays(measured)
