"""The axis letters in a docstring are those of the annotation.

An annotation such as ``Float[Tensor, "B H T d"]`` and the words ``(B, H, T, d)`` in the docstring
say the same thing twice, so each public function's arguments and result are compared, and so is
each dataclass field with the line below it. An argument listed under Args must name its shape; a
scalar need not, nor what may have any shape.
"""

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import pytest

from tests.house.sources import FunctionNode, nodes_of, place, python_files

AXIS = re.compile(r"\.\.\.|\*?[A-Za-z]\w{0,2}(?:[*+-]\w+)*|\d+")
PARENTHESES = re.compile(r"\(([^()]*)\)")
SECTION = re.compile(r"^(Args|Returns|Raises|Yields|Attributes|Source|Example)s?:", re.M)
Shape = tuple[str, ...]


class Claim(NamedTuple):
    """What an annotation and a docstring say of one value."""

    name: str
    line: int
    annotated: set[Shape]
    text: str | None


def normal_axis(axis: str) -> str:
    """One spelling for an axis: no marks for broadcasting, `*` for a product, `...` for many."""
    axis = axis.strip().lstrip("#?").replace("·", "*").replace(" ", "")
    return "..." if axis.startswith(("*", "...")) else axis.split("=")[-1]


def annotated_shapes(annotation: ast.expr | None) -> set[Shape]:
    """Every axis string of a jaxtyping annotation, inside unions and tuples too."""
    shapes = set()
    for node in ast.walk(annotation) if annotation else ():
        if not (isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple)):
            continue
        if ast.unparse(node.value) == "Literal":
            continue
        last = node.slice.elts[-1]
        if isinstance(last, ast.Constant) and isinstance(last.value, str):
            shapes.add(tuple(normal_axis(axis) for axis in last.value.split()))
    return shapes


def written_shapes(text: str, known_axes: set[str]) -> set[Shape]:
    """Every parenthesis of the text that can only be a shape, such as (B, H, T, d)."""
    shapes = set()
    for inside in PARENTHESES.findall(text):
        axes = [axis.strip().replace("·", "*") for axis in inside.split(",") if axis.strip()]
        is_shape = bool(axes) and all(AXIS.fullmatch(axis) for axis in axes)
        if is_shape and ("," in inside or axes[0] in known_axes):
            shapes.add(tuple(normal_axis(axis) for axis in axes))
    return shapes


def sections(docstring: str) -> dict[str, str]:
    """The Google sections of a docstring by name."""
    parts = SECTION.split(docstring)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def argument_texts(docstring: str) -> dict[str, str]:
    """What the Args section says of each argument."""
    text = sections(docstring).get("Args", "")
    entries = re.split(r"^ {4}(?=\*{0,2}\w+(?: \([^)]*\))?:)", text, flags=re.M)[1:]
    pairs = (entry.partition(":")[::2] for entry in entries)
    return {name.split()[0].lstrip("*"): words for name, words in pairs}


def function_claims(node: FunctionNode) -> Iterator[Claim]:
    """The arguments and the result of one function."""
    docstring = ast.get_docstring(node) or ""
    texts = argument_texts(docstring)
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    for argument in arguments:
        shapes = annotated_shapes(argument.annotation)
        yield Claim(argument.arg, argument.lineno, shapes, texts.get(argument.arg))
    result = sections(docstring).get("Returns")
    yield Claim("the result", node.lineno, annotated_shapes(node.returns), result)


def field_claims(nodes: Iterable[ast.AST]) -> Iterator[Claim]:
    """The annotated fields of every class, each with the docstring on the lines below it."""
    for owner in (node for node in nodes if isinstance(node, ast.ClassDef)):
        for field, below in zip(owner.body, owner.body[1:], strict=False):
            if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
                continue
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                shapes = annotated_shapes(field.annotation)
                yield Claim(field.target.id, field.lineno, shapes, str(below.value.value))


def complaint(claim: Claim) -> str | None:
    """What is wrong with a claim: no shape in words, or none that the annotation has."""
    shapes = claim.annotated - {(), ("...",)}
    if not shapes or claim.text is None:
        return None
    written = written_shapes(claim.text, {axis for shape in shapes for axis in shape})
    if written & shapes:
        return None
    wanted = " or ".join("(" + ", ".join(shape) + ")" for shape in sorted(shapes))
    return f"{claim.name} is annotated {wanted}, its docstring says {sorted(written) or 'no shape'}"


def complaints(nodes: Collection[ast.AST]) -> list[tuple[int, str]]:
    """Line and complaint for every claim of a module that does not hold."""
    found = (node for node in nodes if isinstance(node, FunctionNode))
    public = (node for node in found if not node.name.startswith("_"))
    claims = [claim for node in public for claim in function_claims(node)]
    claims += field_claims(nodes)
    return [(claim.line, said) for claim in claims if (said := complaint(claim))]


def test_docstring_letters_are_those_of_the_annotation() -> None:
    offenders = [
        f"{place(path, line)} {wrong}"
        for path in python_files("src")
        for line, wrong in complaints(nodes_of(path))
    ]
    assert not offenders, "\n".join(offenders)


SAMPLE = '''
def merge(z: Float[Tensor, "*B H T d"], b: Float[Tensor, " D"] | None) -> Float[Tensor, "B T H*d"]:
    """Join heads (True, False).

    Args:
        z: heads, {z}.
        b: bias, {b}.

    Returns:
        joined, {result}.
    """
'''
SOUND = {"z": "(..., H, T, d)", "b": "(D)", "result": "(B, T, H·d)"}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, None),
        ({"b": "(D,)"}, None),
        ({"z": "(..., T, H, d)"}, "z is annotated (..., H, T, d)"),
        ({"z": "one for each head"}, "no shape"),
        ({"b": "(E)"}, "b is annotated (D)"),
        ({"result": "(B, T, D)"}, "the result is annotated (B, T, H*d)"),
    ],
)
def test_a_docstring_with_other_letters_is_found(wrong: dict[str, str], said: str | None) -> None:
    text = SAMPLE
    for name, shape in (SOUND | wrong).items():
        text = text.replace("{" + name + "}", shape)
    found = complaints(list(ast.walk(ast.parse(text))))
    assert [said in words for _, words in found] == [True] if said else not found


def test_the_texts_of_a_literal_are_no_shape() -> None:
    tree = ast.parse('class A:\n    kind: Literal["one", "two"]\n    """which."""\n')
    assert not complaints(list(ast.walk(tree)))


def test_a_field_with_other_letters_is_found() -> None:
    tree = ast.parse(
        'class A:\n    q: Float[Tensor, "B H T d"]\n    """queries, (B, T, H, d)."""\n'
    )
    assert complaints(list(ast.walk(tree)))[0][0] == 2
