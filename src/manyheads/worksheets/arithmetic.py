"""Arithmetic on worksheet numbers: exact as long as possible, then to 50 significant digits.

A number has one of three types, which tell how precisely it is known:

- `fractions.Fraction`: exact;
- `sympy.Expr`: exact, a sum of terms such as `-3/5 * sqrt(2) * ln(3)`;
- `decimal.Decimal`: no short exact form exists; correct to at least 50 significant digits.

sympy is loaded only for roots and logarithms.
"""

import decimal
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Any, NamedTuple

Number = Any
"""Fraction, sympy expression or Decimal; sympy carries no types of its own."""

ZERO, ONE = Fraction(0), Fraction(1)
NEGATIVE_INFINITY = Decimal("-Infinity")
"""The masked score of a blocked key."""

DIGITS = 50
"""Significant digits promised for a number that is not exact."""
_CONTEXT = decimal.Context(prec=DIGITS + 20, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, traps=[])
_FINE = decimal.Context(prec=600, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, traps=[])
_MAX_BITS = 2048
"""A fraction longer than this (about 600 digits) continues as a decimal number."""
_MAX_TERMS = 32
"""A sum of more terms than this continues as a decimal number."""
_MAX_PRODUCTS = 16
"""A row of more products with roots or logarithms than this continues as a decimal number."""


class Term(NamedTuple):
    """One term of a symbolic number: coefficient * sqrt(root) * ln(n)**power * ..."""

    coefficient: Fraction
    root: int
    logs: tuple[tuple[int, int], ...]


def is_exact(number: Number) -> bool:
    """Whether a number is known exactly; minus infinity, the score of a blocked key, is."""
    return not isinstance(number, Decimal) or number == NEGATIVE_INFINITY


def terms_of(number: Number) -> list[Term]:
    """Split a fraction or symbolic number into its terms."""
    if type(number) is Fraction:
        return [Term(number, 1, ())] if number else []
    from sympy import Add

    return [_term(part) for part in Add.make_args(number)]


def _term(part: Number) -> Term:
    from sympy import Mul, log

    coefficient, rest = part.as_coeff_Mul()
    root, logs = 1, []
    for factor in Mul.make_args(rest):
        base, exponent = factor.as_base_exp()
        if isinstance(base, log):
            logs.append((int(base.args[0]), int(exponent)))
        elif factor != 1:
            root *= int(base)
    return Term(Fraction(int(coefficient.p), int(coefficient.q)), root, tuple(sorted(logs)))


def square_root(number: Fraction) -> Number:
    """The square root of a positive fraction: a fraction if possible, else symbolic."""
    top, bottom = isqrt(number.numerator), isqrt(number.denominator)
    if top * top == number.numerator and bottom * bottom == number.denominator:
        return Fraction(top, bottom)
    from sympy import Rational, sqrt

    return sqrt(Rational(number.numerator, number.denominator))


def logarithm(number: Fraction) -> Number:
    """Take the natural logarithm of a positive fraction, in terms of logarithms of its factors."""
    if number == 1:
        return ZERO
    from sympy import Add, factorint, log

    parts = []
    for whole, sign in ((number.numerator, 1), (number.denominator, -1)):
        found = factorint(whole, limit=1000)
        parts += [sign * power * log(factor) for factor, power in found.items() if factor > 1]
    return Add(*parts)


def decimal_of(number: Number) -> Decimal:
    """Evaluate a number to more than 50 significant digits."""
    if isinstance(number, Decimal):
        return number
    if type(number) is Fraction:
        return _CONTEXT.divide(Decimal(number.numerator), Decimal(number.denominator))
    return _symbol_decimal(number)


@lru_cache(maxsize=4096)
def _symbol_decimal(number: Number) -> Decimal:
    terms = terms_of(number)
    values = [_evaluate(term, _CONTEXT) for term in terms]
    total, size = _sum(values, _CONTEXT), max(abs(value) for value in values)
    if abs(total) > size.scaleb(-15):
        return total
    return _CONTEXT.plus(_sum([_evaluate(term, _FINE) for term in terms], _FINE))


def _evaluate(term: Term, context: decimal.Context) -> Decimal:
    value = context.divide(
        Decimal(term.coefficient.numerator), Decimal(term.coefficient.denominator)
    )
    if term.root != 1:
        value = context.multiply(value, _root_decimal(term.root, context.prec))
    for base, power in term.logs:
        for _ in range(power):
            value = context.multiply(value, _log_decimal(base, context.prec))
    return value


@lru_cache(maxsize=1024)
def _root_decimal(whole: int, digits: int) -> Decimal:
    return (_FINE if digits == _FINE.prec else _CONTEXT).sqrt(Decimal(whole))


@lru_cache(maxsize=1024)
def _log_decimal(whole: int, digits: int) -> Decimal:
    return (_FINE if digits == _FINE.prec else _CONTEXT).ln(Decimal(whole))


def _sum(values: Iterable[Decimal], context: decimal.Context) -> Decimal:
    total = Decimal(0)
    for value in values:
        total = context.add(total, value)
    return total


def float_of(number: Number) -> float:
    """Round a number once to the nearest float64; beyond its range it becomes infinite."""
    if type(number) is Fraction:
        try:
            return float(number)
        except OverflowError:
            return float("inf") if number > 0 else float("-inf")
    return float(decimal_of(number))


def is_positive(number: Number) -> bool:
    """Whether a number is greater than 0, decided exactly or to more than 50 digits."""
    return bool(number > 0) if type(number) is Fraction else decimal_of(number) > 0


def _sympified(number: Number) -> Number:
    from sympy import Rational

    if type(number) is Fraction:
        return Rational(number.numerator, number.denominator)
    return number


def _tidied(number: Number) -> Number:
    if type(number) is Fraction:
        size = max(number.numerator.bit_length(), number.denominator.bit_length())
        return decimal_of(number) if size > _MAX_BITS else number
    if number.is_Rational:
        return _tidied(Fraction(int(number.p), int(number.q)))
    return decimal_of(number) if len(number.args) > _MAX_TERMS else number


def add(left: Number, right: Number) -> Number:
    """Add two numbers; the sum is exact where both are."""
    if type(left) is Fraction and type(right) is Fraction:
        return _tidied(left + right)
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        return _CONTEXT.add(decimal_of(left), decimal_of(right))
    return _tidied(_sympified(left) + _sympified(right))


def multiply(left: Number, right: Number) -> Number:
    """Multiply two numbers; an exact zero makes the product an exact zero."""
    if type(left) is Fraction and type(right) is Fraction:
        return _tidied(left * right)
    if _is_zero(left) or _is_zero(right):
        return ZERO
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        return _CONTEXT.multiply(decimal_of(left), decimal_of(right))
    return _symbolic_product(_sympified(left), _sympified(right))


def _symbolic_product(left: Number, right: Number) -> Number:
    from sympy import Add

    count = len(Add.make_args(left)) * len(Add.make_args(right))
    if count > _MAX_TERMS:
        return _CONTEXT.multiply(decimal_of(left), decimal_of(right))
    product = left * right
    return _tidied(product.expand() if count > 1 else product)


def dot(left: Sequence[Number], right: Sequence[Number]) -> Number:
    """Sum the products of two equally long rows of numbers."""
    pairs = [(a, b) for a, b in zip(left, right, strict=True) if not (_is_zero(a) or _is_zero(b))]
    rational = [type(a) is Fraction and type(b) is Fraction for a, b in pairs]
    if all(rational):
        return _tidied(sum((a * b for a, b in pairs), ZERO))
    if rational.count(False) > _MAX_PRODUCTS:
        return _sum((_CONTEXT.multiply(decimal_of(a), decimal_of(b)) for a, b in pairs), _CONTEXT)
    total: Number = ZERO
    for a, b in pairs:
        total = add(total, multiply(a, b))
    return total


def _is_zero(number: Number) -> bool:
    return type(number) is Fraction and not number


def negative(number: Number) -> Number:
    """Change the sign of a number."""
    return multiply(Fraction(-1), number)


def reciprocal(number: Number) -> Number:
    """Divide 1 by a number other than 0; exact for fractions and for a + b sqrt(n)."""
    if type(number) is Fraction:
        return 1 / number
    if isinstance(number, Decimal):
        return _CONTEXT.divide(Decimal(1), number)
    terms = terms_of(number)
    roots = {term.root for term in terms} - {1}
    if len(roots) > 1 or any(term.logs for term in terms):
        return _CONTEXT.divide(Decimal(1), decimal_of(number))
    plain = sum((term.coefficient for term in terms if term.root == 1), ZERO)
    rooted = sum((term.coefficient for term in terms if term.root != 1), ZERO)
    norm = plain**2 - rooted**2 * roots.pop()
    conjugate = add(multiply(Fraction(2) * plain, ONE), negative(number))
    return multiply(conjugate, 1 / norm)


def exponential(number: Number) -> Number:
    """Take e to the power of a number: exact for 0 and for sums of logarithms, else 50 digits."""
    if isinstance(number, Decimal):
        return ZERO if number == NEGATIVE_INFINITY else _CONTEXT.exp(number)
    closed: Number = ONE
    for term in terms_of(number):
        factor = _power(term)
        if factor is None:
            return _CONTEXT.exp(decimal_of(number))
        closed = multiply(closed, factor)
    return closed


def _power(term: Term) -> Number | None:
    """Return exp(c ln n) = n**c where c is whole or half and the result is short, else None."""
    c = term.coefficient
    if term.root != 1 or len(term.logs) != 1 or term.logs[0][1] != 1 or c.denominator > 2:
        return None
    base = term.logs[0][0]
    if abs(c) * base.bit_length() > _MAX_BITS // 2:
        return None
    whole = Fraction(base) ** (c.numerator // c.denominator)
    return whole if c.denominator == 1 else multiply(whole, square_root(Fraction(base)))
