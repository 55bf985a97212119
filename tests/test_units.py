"""Units by definition: what the SI fixes is exact, and what is measured agrees with ASE's tables of CODATA."""

from decimal import Decimal, getcontext

import ase.units
import pytest

from equiscope.errors import UnknownName
from equiscope.units import ENERGIES, LENGTHS, angstrom, electronvolts

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(("unit", "joule"), [("kcal/mol", 4184), ("kJ/mol", 1000)])
def test_units_of_chemists_are_exact_since_the_si_fixes_charge_and_count(unit, joule):
    getcontext().prec = 30
    exact = Decimal(joule) / (Decimal("6.02214076e23") * Decimal("1.602176634e-19"))
    assert electronvolts(unit) == pytest.approx(float(exact), rel=2e-16)


@pytest.mark.parametrize("codata", [year for year in ("2018", "2022") if year in ase.units.CODATA])
def test_units_agree_with_ases_newest_tables(codata):
    """ASE computes hartree and bohr from other constants, to 1e-10; without a year it means the CODATA of 2014, 8e-9 off."""
    u = ase.units.create_units(codata)
    theirs = {"eV": 1, "meV": 1e-3, "kcal/mol": u.kcal / u.mol, "kJ/mol": u.kJ / u.mol, "hartree": u.Hartree, "Ry": u.Rydberg}
    assert set(theirs) == set(ENERGIES)
    for unit, ev in theirs.items():
        assert electronvolts(unit) == pytest.approx(ev, rel=1e-11 if codata == "2018" else 1e-12)
    for unit, long in {"angstrom": 1, "nm": u.nm, "bohr": u.Bohr}.items():
        assert angstrom(unit) == pytest.approx(long, rel=1e-9)
    assert set(LENGTHS) == {"angstrom", "nm", "bohr"}


@pytest.mark.parametrize("unknown", ["kcal", "ev", "Hartree", "rydberg", ""])
def test_an_unknown_unit_lists_those_that_there_are(unknown):
    with pytest.raises(UnknownName, match="kcal/mol"):
        electronvolts(unknown)
    with pytest.raises(UnknownName, match="bohr"):
        angstrom(unknown)
