"""The demo world holds exactly what its plan says, and comes out the same everywhere."""

from collections import Counter
from datetime import date
from decimal import Decimal

import pytest

from demo import plan
from demo.dice import Dice
from demo.world import World, draw_amounts, generate, is_headline, read_wording

# Changes when texts or numbers of the world change on purpose; then look at demo/questions.yaml too.
VERSION = "bf65dfe7a0d5b1b1f7bce9e8b353baeb540ddbd2e77e1dd57aa737c3ee62e062"


@pytest.fixture
def world() -> World:
    return generate()


def headline(world):
    return [contract for contract in world.contracts if is_headline(contract, world.provider(contract))]


def test_the_world_is_the_same_on_every_python(world):
    assert world.version() == VERSION
    assert generate.__wrapped__().version() == VERSION
    assert generate(2).version() != VERSION


def test_the_headline_contracts_are_47_and_add_up_to_8_300_000(world):
    found = headline(world)
    assert len(found) == 47
    assert sum(contract.amount for contract in found) == Decimal("8300000.00")
    assert {date(2025, 1, 1), date(2025, 12, 31)} <= {contract.signed_on for contract in found}


def test_every_criterion_of_the_headline_leaves_some_contract_out(world):
    def count(low, years, regions):
        return sum(
            c.amount > low and c.signed_on is not None and c.signed_on.year in years
            and world.provider(c).region_code in regions
            for c in world.contracts
        )  # fmt: skip

    years, everywhere = range(2020, 2030), {"EU", "UK", "NA", "LATAM", "APAC"}
    assert count(100_000, {2025}, {"EU"}) == 47
    assert count(Decimal("99999.99"), {2025}, {"EU"}) == 48
    assert count(0, {2025}, {"EU"}) == 76
    assert count(100_000, {2025}, everywhere) == 66
    assert count(100_000, years, {"EU"}) > 80
    edges = Counter(
        c.signed_on for c in world.contracts if world.provider(c).region_code == "EU" and c.amount > 100_000
    )
    assert edges[date(2024, 12, 31)] == 3
    assert edges[date(2026, 1, 1)] == 2


def test_the_register_has_the_size_of_the_plan(world):
    assert len(world.providers) == 60
    assert len({provider.name for provider in world.providers}) == 60
    assert len(world.contracts) == 320
    assert 850 <= len(world.payments) <= 1000
    assert len({contract.id for contract in world.contracts}) == 320
    assert Counter(c.status for c in world.contracts)["draft"] == plan.DRAFTS


def test_codes_follow_the_year_and_order_of_signature(world):
    signed = [c for c in world.contracts if c.signed_on]
    assert [c.id for c in signed] == [c.id for c in sorted(signed, key=lambda c: (c.signed_on, c.id))]
    assert all(c.id[3:7] == str(c.signed_on.year) for c in signed)
    assert all(c.signed_on is None for c in world.contracts if c.status == "draft")


def test_payments_add_up_to_each_signed_contract(world):
    sums = Counter()
    for payment in world.payments:
        sums[payment.contract_id] += payment.amount
        assert (payment.paid_on is not None) == (payment.status == "paid")
        assert payment.paid_on is None or payment.paid_on <= plan.AS_OF
    assert sums == {c.id: c.amount for c in world.contracts if c.signed_on}


def test_only_two_special_conditions_recur_among_the_headline_documents(world):
    ids = {contract.id for contract in headline(world)} & set(world.conditions)
    counts = Counter(kind for contract_id in ids for kind in world.conditions[contract_id])
    assert len(ids) == 18
    assert counts.pop("penalty_2") == 13
    assert counts.pop("cpi_capped") == 12
    assert set(counts.values()) == {1}


def test_no_other_special_condition_is_frequent_in_all_documents(world):
    counts = Counter(kind for kinds in world.conditions.values() for kind in kinds)
    assert len(world.conditions) == 26
    assert all(count <= 2 for kind, count in counts.items() if kind not in ("penalty_2", "cpi_capped"))
    assert counts["penalty_5"] == counts["cpi_uncapped"] == 1
    outside = [k for i, kinds in world.conditions.items() if world.provider(world.contract(i)).region_code != "EU"
               for k in kinds]  # fmt: skip
    assert not {"penalty_2", "cpi_capped"} & set(outside)


def test_source_code_is_deposited_only_where_software_is_bought(world):
    escrow = [world.contract(i).category for i, kinds in world.conditions.items() if "escrow" in kinds]
    assert escrow == ["software", "software"]


def test_figures_of_a_recurring_condition_are_the_same_in_all_wordings():
    for kind, figure in (("penalty_2", "2 %"), ("cpi_capped", "4 %")):
        condition = read_wording()["conditions"][kind]
        for language in ("es", "en"):
            assert len(condition[language]["texts"]) == 3
            assert all(figure in text for text in [*condition[language]["texts"], condition[language]["short"]])


def test_a_plan_that_cannot_be_met_is_refused():
    with pytest.raises(ValueError, match="cannot be met"):
        draw_amounts(Dice(1), plan.Lot(2025, "EU", 3, 100_00, 200_00, total=900_00))


def test_dice_stay_within_their_bounds():
    dice = Dice(1)
    assert {dice.between(3, 5) for _ in range(200)} == {3, 4, 5}
    assert sorted(dice.draw([1, 2, 3], 3)) == [1, 2, 3]
