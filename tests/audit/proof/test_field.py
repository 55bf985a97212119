"""Numbers modulo a prime represent formulas: equal numbers are equal formulas, different numbers are different ones."""

import pytest
import torch

from equiscope.audit.proof.field import (
    HIGH,
    LOW,
    NONE,
    PRIME,
    NoRule,
    add,
    bilinear,
    constant,
    function,
    indeterminates,
    inverse,
    multiply,
    negative,
    ordered,
    power,
    product,
    total,
    unordered,
)
from equiscope.audit.proof.field_steps import FieldSteps
from equiscope.program.loops.computation import called

pytestmark = pytest.mark.quick

ATEN = torch.ops.aten


def made(op, t, *arguments, **named):
    """One of torch's operations on numbers of the field."""
    steps = FieldSteps()
    return steps.read(called(steps, op, (steps.to_value(t, torch.float64), *arguments), named))


def softmax(t, dim):
    return made(ATEN._softmax.default, t, dim, False)


def test_products_of_matrices_are_exact():
    a, b = indeterminates((5, 700), "a"), indeterminates((700, 3), "b")
    wanted = [[sum(x * y for x, y in zip(row, column, strict=True)) % PRIME for column in b.T.tolist()] for row in a.tolist()]
    assert bilinear(torch.matmul, a, b).tolist() == wanted


def test_the_largest_numbers_of_the_field_do_not_overflow():
    a = torch.full((2, 4096), PRIME - 1)
    assert bilinear(torch.matmul, a, a.mT).tolist() == [[4096, 4096]] * 2  # (-1)(-1) each


def test_a_number_times_its_inverse_is_one():
    a = indeterminates((100,), "a")
    assert multiply(a, inverse(a)).eq(1).all()
    assert inverse(torch.tensor([0])).tolist() == [NONE]


def test_what_is_equal_in_school_is_equal_here():
    a, b = indeterminates((50,), "a"), indeterminates((50,), "b")
    left = power(add(a, b), 2)
    right = add(add(power(a, 2), power(b, 2)), multiply(constant(torch.tensor(2.0)), multiply(a, b)))
    assert torch.equal(left, right)
    assert not torch.equal(left, add(power(a, 2), power(b, 2)))


def test_the_spread_is_the_mean_square_less_the_squared_mean():
    x = indeterminates((4, 9), "x")
    mean = made(ATEN.mean.dim, x, [1])
    spread = made(ATEN.var.correction, x, [1], correction=0)
    assert torch.equal(spread, add(made(ATEN.mean.dim, power(x, 2), [1]), negative(power(mean, 2))))


def test_integers_are_themselves_and_others_are_indeterminates_with_a_sign():
    found = constant(torch.tensor([0.0, 1.0, -1.0, 0.5, -0.5]))
    assert found[:3].tolist() == [0, 1, PRIME - 1]
    assert add(found[3], found[4]) == 0
    assert not torch.equal(multiply(found[3], torch.tensor(2)), torch.tensor(1))  # a half is a letter: nothing false follows


def test_infinities_add_as_they_do():
    low, high, one = torch.tensor(LOW), torch.tensor(HIGH), torch.tensor(1)
    assert add(low, one) == LOW
    assert add(high, one) == HIGH
    assert add(low, high) == NONE
    assert negative(low) == HIGH
    assert multiply(low, torch.tensor(0)) == NONE
    assert multiply(low, one) == LOW
    assert total(torch.tensor([1, LOW]), [0]) == LOW


def test_an_infinity_times_a_formula_has_no_sign_that_is_known():
    assert multiply(torch.tensor(LOW), indeterminates((), "a")) < PRIME


def test_softmax_gives_nothing_where_the_mask_is_minus_infinity():
    x = indeterminates((3, 5), "x")
    x[:, 3:] = LOW
    found = softmax(x, -1)
    assert found[:, 3:].eq(0).all()
    assert found[:, :3].ne(0).all()
    assert torch.equal(found[:, :3], softmax(x[:, :3], -1))
    assert softmax(torch.full((1, 4), LOW), -1).eq(NONE).all()


def test_a_set_has_no_order_and_a_list_has():
    x = indeterminates((6,), "x")
    turned = x.roll(1)
    assert torch.equal(unordered("f", x, [0]), unordered("f", turned, [0]))
    assert not torch.equal(ordered("f", x, [0]), ordered("f", turned, [0]))
    assert not torch.equal(ordered("f", torch.tensor([1, 0]), [0]), ordered("f", torch.tensor([1, LOW]), [0]))


def test_functions_of_other_names_are_others():
    x = indeterminates((6,), "x")
    assert torch.equal(function("f", x), function("f", x))
    assert not torch.equal(function("f", x), function("g", x))


def test_products_along_axes():
    x = indeterminates((2, 3, 4), "x")
    assert torch.equal(product(x, [1]), multiply(multiply(x[:, 0], x[:, 1]), x[:, 2]))
    assert product(x, [0, 2], True).shape == (1, 3, 1)


def test_an_infinity_in_a_product_of_matrices_has_no_rule():
    with pytest.raises(NoRule):
        bilinear(torch.matmul, torch.full((2, 2), LOW), torch.ones(2, 2, dtype=torch.long))
