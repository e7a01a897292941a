"""Sound as DALI's own tests ask for it, in the real DALI and here."""

from __future__ import annotations

import pytest
import sound_agreement
from dali_oracle import Oracle, dali_fixture  # noqa: F401


@pytest.mark.parametrize("family", sound_agreement.FAMILIES)
def test_cases_of_dalis_tests_have_dalis_values(dali: Oracle, family):
    assert len(sound_agreement.FAMILIES[family]()) >= 30
    shares = sound_agreement.of_family(family, dali)
    assert shares.against == []
    assert sum(count for count, _ in shares.values.values()) > 1000
