"""Part 1 of the lab: the two hand-chosen routes, and what a zero query does to them."""

from functools import partial

from manyheads.learn.lab.assertions import Equals
from manyheads.learn.lab.record import Record
from manyheads.learn.lab.routes import Case, numbered, two_routes


def write_routes(record: Record) -> None:
    """X, the shape of every projection, and scores, weights and output of each head at the end."""
    case = two_routes()
    last = case.num_positions - 1
    record.say(
        "The worksheet two-routes. Exact numbers stand first, measured decimals beside them; each "
        "is held against fractions, published answers, a count by hand or PyTorch."
    )
    record.say(
        "Every query is the same and both heads read the same values. The keys have opposite "
        "signs: with the log key, the scores of one head grow and those of the other shrink."
    )
    record.table("X, a row an input", case.sheet.features)
    for t in range(case.num_positions):
        record.row(f"position {t + 1}", case.measured("x", t), case.fractions("x", t))
    _write_shapes(record, case)
    keys = numbered("key", case.num_positions)
    at_last = f"at position {last + 1}"
    _write_heads(record, case, "scores", f"scores {at_last}: q·k / sqrt(head width)", keys)
    _write_heads(record, case, "attn_weights", f"weights {at_last}: softmax of the scores", keys)
    caption = f"output per head {at_last}: weights times values"
    _write_heads(record, case, "head_outputs", caption, numbered("value", case.sheet.v_head_dim))


def _write_heads(
    record: Record, case: Case, name: str, caption: str, columns: tuple[str, ...]
) -> None:
    """One row a head, at the last position, against fractions and the published answers."""
    last = case.num_positions - 1
    record.table(caption, columns)
    for h, label in enumerate(case.head_names):
        fractions, published = case.fractions(name, h, last), case.published(name, h)
        record.row(label, case.measured(name, h, last), fractions, published)


def _shape(rows: tuple[tuple[object, ...], ...]) -> tuple[int, int]:
    return len(rows), len(rows[0])


def _write_shapes(record: Record, case: Case) -> None:
    sheet, exact = case.sheet, case.exact
    record.table("shapes, (rows, columns)", ("W_Q", "W_K", "W_V", "q", "k", "v"))
    for h, label in enumerate(case.head_names):
        weights = [_shape(w) for w in (sheet.heads[h].w_q, sheet.heads[h].w_k, sheet.heads[h].w_v)]
        wanted = (*weights, *(_shape(exact[name][h]) for name in ("q", "k", "v")))
        shapes = Equals(source="worksheet", numbers=wanted)
        record.row(label, partial(_head_shapes, case, h), shapes)
    record.table("shapes where the heads meet", ("joined", "W_O", "output"))
    wanted = (_shape(exact["concat"]), _shape(sheet.w_o), _shape(exact["output"]))
    shapes = Equals(source="worksheet", numbers=wanted)
    record.row("both heads", partial(_joined_shapes, case), shapes)


def _head_shapes(case: Case, h: int) -> tuple[tuple[int, ...], ...]:
    weights, trace = case.layer("packed").head_weights(), case.trace
    tensors = (weights.w_q[h], weights.w_k[h], weights.w_v[h], *(trace[n][0, h] for n in "qkv"))
    return tuple(tuple(tensor.shape) for tensor in tensors)


def _joined_shapes(case: Case) -> tuple[tuple[int, ...], ...]:
    w_o = case.layer("packed").head_weights().w_o.flatten(0, 1)  # (H*v, D)
    return tuple(tuple(t.shape) for t in (case.trace.concat[0], w_o, case.trace.output[0]))


def try_zero_query(record: Record) -> None:
    """Every entry of W_Q becomes zero, in both heads."""
    given = two_routes()
    case, last = given.with_zero_query(), given.num_positions - 1
    keys = numbered("key", case.num_positions)
    record.say(
        "A zero query scores every key alike. Softmax makes equal scores into equal weights."
    )
    for name, what in (("scores", "scores"), ("attn_weights", "weights")):
        record.table(f"{what} at position {last + 1}, every query zero", keys)
        for h, label in enumerate(case.head_names):
            more = () if name == "scores" else (case.published("zero_query", name, h),)
            record.row(label, case.measured(name, h, last), case.fractions(name, h, last), *more)
    record.table(f"joined heads at position {last + 1}", numbered("value", len(case.sheet.w_o)))
    _write_zero_row(record, case, "concat", "both heads")
    record.say(
        "Where both heads say the same, every output that subtracts one from the other is zero."
    )
    record.table(f"output at position {last + 1}", numbered("output", case.sheet.embed_dim))
    _write_zero_row(record, case, "output", "joined heads W_O")


def _write_zero_row(record: Record, case: Case, name: str, label: str) -> None:
    last = case.num_positions - 1
    fractions, published = case.fractions(name, last), case.published("zero_query", name)
    record.row(label, case.measured(name, last), fractions, published)
