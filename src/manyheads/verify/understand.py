"""Watches a subject at work and completes its declaration: weights, sizes, order, positions."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from manyheads.attention.problem import Problem, RowNorm
from manyheads.core.config import Rotary
from manyheads.core.errors import ManyHeadsError
from manyheads.verify.calling import Callee, Outcome, read_answer
from manyheads.verify.declared import with_declared
from manyheads.verify.findings import short
from manyheads.verify.fitting import is_same_rotary
from manyheads.verify.found_weights import found_weights
from manyheads.verify.hidden import scores_as_masked
from manyheads.verify.parameters import all_tensors
from manyheads.verify.problems import ProblemMaker
from manyheads.verify.reading import EXACT, HALF, SINGLE, Departure, Reader, Reading
from manyheads.verify.score_settings import complete_extras, complete_order
from manyheads.verify.structure import Structure
from manyheads.verify.subject import ParamSpec, Subject
from manyheads.verify.understanding import Seen, Understanding
from manyheads.verify.watch import Event, storage_of, watch


def own_files(made: object) -> list[str]:
    """The source files of a subject's class and its parents, outside of torch."""
    target = getattr(made, "inner", made)
    classes = type(target).__mro__ if isinstance(target, nn.Module) else ()
    code = getattr(target, "__code__", None)
    found = [code.co_filename] if code is not None else []
    for cls in classes:
        method = vars(cls).get("forward")
        if method is not None and not cls.__module__.startswith("torch."):
            method = getattr(method, "__wrapped__", method)
            where = getattr(method, "__code__", None)
            found += [where.co_filename] if where is not None else []
    return found


def see(callee: Callee, problem: Problem, **extra: object) -> Seen:
    """Put a problem to a subject and watch it."""
    outcomes: list[Outcome] = []

    def call() -> object:
        outcomes.append(callee.call(problem, **extra))
        return outcomes[0].raw

    watched = watch(call, own_files(callee.made))
    outcome = outcomes[0] if outcomes else Outcome(raised=short(watched.raised or ValueError()))
    lengths = (problem.x_q.shape[-2], problem.x_k.shape[-2])
    structure = Structure(batch=problem.batch, lengths=lengths, events=watched.events)
    positions = []
    inputs = (problem.x_q, problem.x_k, problem.x_v)
    for x in inputs:
        where = torch.arange(x.shape[0] * x.shape[-2])
        where = where.view(x.shape[0], *(1,) * (x.dim() - 3), x.shape[-2], 1)
        positions.append(where.expand(x.shape))
    structure.begin(inputs, positions)
    structure.run()
    return Seen(problem=problem, outcome=outcome, structure=structure)


def understand(
    callee: Callee, subject: Subject, made: object, *, knows_heads: bool
) -> Understanding:
    """Watch a subject and read its weights and settings off what it does.

    Args:
        callee: with fixed weights, in float64 where it works in that.
        subject: with sizes, form and order of axes.
        made: the subject as it was built.
        knows_heads: whether the number of heads is declared, rather than assumed.
    """
    seen = _first(callee, subject)
    if seen.outcome.output is None:
        return Understanding(subject=subject, reason=f"the call raises {seen.outcome.raised}")
    reading, tolerance = _read(seen, subject)
    found = Understanding(
        subject=subject, seen=seen, reading=reading, tolerance=tolerance, is_declared=knows_heads
    )
    found.names = frozenset(all_tensors(made))
    found.departures = list(reading.departures)
    _note_unseen(found, seen)
    if seen.problem.x_q.shape[-2] == seen.problem.x_k.shape[-2]:
        found.subject = found.subject.with_extras(is_square=True)
    _complete(found, callee)
    if reading.gate is not None and found.subject.spec.gate is None:
        found.words["spec.gate"] = "sigmoid of a projection of the query input"
    if found.subject.extras.bias is not None:
        _widen_bias(found, callee)
    found.subject = with_declared(found.subject, callee.root)
    return found


def _note_unseen(found: Understanding, seen: Seen) -> None:
    """Where the output comes from no operation that was seen, nothing can be said of its steps."""
    output = read_answer(seen.outcome.raw)[0]
    if output is None or storage_of(output) in seen.structure.data:
        return
    says = (
        "the computation leaves what can be watched (NumPy, a compiled kernel or a custom "
        "extension), so its steps were not seen"
    )
    found.departures = [Departure(step="output", says=says, line=None, is_foreign=True)]


_WIDE_BIAS = 17


def _widen_bias(found: Understanding, callee: Callee) -> None:
    """Read a table of biases for more positions."""
    width = found.subject.spec.width
    for length in (_WIDE_BIAS, 13):
        batch = max(4, math.ceil((width + 6) / length))
        plain = found.subject.with_extras(bias=None)
        maker = ProblemMaker(plain, None)
        seen = see(callee, maker.plain(batch, length, length, seed=301))
        if seen.outcome.output is None:
            continue
        scores = _read(seen, plain)[0].scores
        if scores is not None and scores.bias is not None:
            found.subject = found.subject.with_extras(bias=scores.bias)
            return


def _first(callee: Callee, subject: Subject) -> Seen:
    """A call with enough rows to solve for the weights."""
    spec = subject.spec
    widest = max(spec.width, spec.kdim or 0, spec.vdim or 0)
    maker = ProblemMaker(subject, None)
    form = subject.call.form
    if form == "heads":
        sizes = [(3, 4, 5), (3, 5, 5)]
    else:
        enough = max(4, math.ceil((widest + 6) / 7))
        sizes = [(enough, 7, 9), (2, 7, 9)] if form in ("cross", "qkv") else []
        sizes += [(enough, 9, 9), (2, 9, 9)]
    seen = None
    for batch, queries, keys in sizes:
        if queries != keys and subject.extras.is_square:
            continue
        seen = see(callee, maker.plain(batch, queries, keys, seed=300))
        if seen.outcome.output is not None:
            return seen
    assert seen is not None
    return seen


def _read(seen: Seen, subject: Subject) -> tuple[Reading, float]:
    """Read in the exactness of the types at work."""
    problem = seen.problem
    inputs = [x.double() for x in (problem.x_q, problem.x_k, problem.x_v)]
    count = len(seen.outcome.inputs)
    output = seen.outcome.output
    assert output is not None

    def read(tolerance: float) -> Reading:
        reader = Reader(
            seen.structure,
            inputs[:count],
            output.detach().double(),
            form=subject.call.form or "self",
            heads=subject.spec.num_heads,
            head_dim=subject.spec.d,
            knows_positions=subject.spec.position is not None,
            tolerance=tolerance,
        )
        return reader.read()

    exact, known = read(EXACT), EXACT
    if not exact.departures or not is_single(seen.structure.events):
        return exact, EXACT
    for tolerance in (SINGLE, HALF) if is_half(seen.structure.events) else (SINGLE,):
        rough = read(tolerance)
        if len(rough.departures) < len(exact.departures):
            exact, known = rough, SINGLE if tolerance == SINGLE else EXACT
    return exact, known


def is_single(events: Iterable[Event]) -> bool:
    """Whether a step works in float32 or less."""
    kinds = {x.dtype for event in events for x in event.values if x.is_floating_point()}
    return bool(kinds & {torch.float32, torch.float16, torch.bfloat16})


def is_half(events: Iterable[Event]) -> bool:
    """Whether a step works in a half type."""
    kinds = {x.dtype for event in events for x in event.values}
    return bool(kinds & {torch.float16, torch.bfloat16})


def _complete(found: Understanding, callee: Callee) -> None:
    """Fill in what the declaration leaves open."""
    reading = found.reading
    assert reading is not None
    spec = found.subject.spec
    if reading.core is not None:
        heads = reading.core.q.shape[1]
        if not found.is_declared:
            found.subject = found.subject.with_spec(num_heads=heads)
        elif heads != spec.num_heads:
            found.departures.append(
                Departure(
                    step="q",
                    says=f"attention runs with {heads} heads; {spec.num_heads} are declared",
                    line=reading.core.lines["scores"],
                )
            )
    _positions(found, reading)
    if reading.scores is not None and not _depends_on_length(found, callee):
        complete_order(found, reading.scores)
    _rotary_start(found, reading)
    if found.subject.params is None or found.subject.params.is_guessed:
        _weights(found, callee, reading)
    elif reading.scores is not None and reading.q is not None and reading.k is not None:
        found.scale = reading.scores.factor * reading.q.factor * reading.k.factor
    _norms(found, reading)
    _scale_beside_norms(found)
    if reading.scores is not None:
        complete_extras(found, reading.scores)


def _positions(found: Understanding, reading: Reading) -> None:
    """Rotary positions."""
    q, k = reading.q, reading.k
    if q is None or k is None or found.subject.spec.position is not None:
        return
    if q.rotary is None and k.rotary is None:
        return
    if q.rotary is None or k.rotary is None or not is_same_rotary(q.rotary, k.rotary):
        name = "keys" if k.rotary is None else "queries"
        says = f"{name} are not rotated as the others are"
        found.departures.append(Departure(step=name[0], says=says, line=None))
        if q.rotary is None:
            return
    found.subject = found.subject.with_spec(position=q.rotary)
    found.words["spec.position"] = _rotary_words(q.rotary)


def _rotary_words(rotary: Rotary) -> str:
    part = "" if rotary.dim is None else f", {rotary.dim} channels"
    size = "" if rotary.magnitude == 1.0 else f", cosine and sine times {rotary.magnitude:.6g}"
    if rotary.frequencies is None:
        return f"rotary, {rotary.style}, base {rotary.base:g}{part}{size}"
    shown = ", ".join(f"{f:.4g}" for f in rotary.frequencies[:6])
    more = ", ..." if len(rotary.frequencies) > 6 else ""
    return f"rotary, {rotary.style}, scaled frequencies {shown}{more} radians{part}{size}"


def _rotary_start(found: Understanding, reading: Reading) -> None:
    """Whether positions of queries and of keys both count from zero, as two sequences have them.

    Beside causality that is aligned to the last key this would be a mistake.
    """
    core, q, k = reading.core, reading.q, reading.k
    if core is None or q is None or k is None or q.rotary is None or k.rotary is None:
        return
    spec = found.subject.spec
    is_aligned = spec.causal == "always" and spec.causal_corner != "top_left"
    is_same = is_same_rotary(q.rotary, k.rotary) and q.start == k.start
    if core.q.shape[2] == core.k.shape[2] or not is_same or is_aligned:
        return
    found.subject = found.subject.with_extras(turns_from_first=True)
    found.words["spec.rotary_start"] = "positions of queries and of keys both count from zero"


def _depends_on_length(found: Understanding, callee: Callee) -> bool:
    """Whether keys that are hidden in long inputs are shown in short ones."""
    reading, spec = found.reading, found.subject.spec
    assert reading is not None and reading.scores is not None
    allowed = reading.scores.allowed
    corners = (0, allowed.shape[-1] - allowed.shape[-2])
    is_hidden = allowed.dim() == 2 and any(
        torch.equal(allowed, torch.ones_like(allowed).tril(corner)) for corner in corners
    )
    if not is_hidden or spec.causal is not None or spec.window is not None:
        return False
    seen = see(callee, ProblemMaker(found.subject, None).plain(3, 3, 3, seed=302))
    for _, weights in seen.structure.softmaxes() if seen.outcome.output is not None else ():
        if bool((weights > 0).all()) and scores_as_masked(seen.structure) is None:
            says = "later keys are hidden in inputs of 9 positions and shown in those of 3"
            found.departures.append(Departure(step="masked_scores", says=says, line=None))
            return True
    return False


def _norms(found: Understanding, reading: Reading) -> None:
    """Norms of the inputs, of queries, keys and values."""
    norms = {("input", "context", "values")[i]: x for i, x in reading.input_norms.items()}
    for name, rows in (("q", reading.q), ("k", reading.k), ("v", reading.v)):
        if rows is not None and rows.norm is not None:
            norms[f"turned {name}" if rows.is_norm_last else name] = rows.norm
    if not norms:
        return
    found.subject = found.subject.with_extras(norms=norms)
    names = {"q": "queries", "k": "keys", "v": "values", "values": "input of the values"}
    names |= {f"turned {n}": f"{names[n]} after rotation" for n in "qk"}
    is_declared = found.subject.spec.qk_norm is not None
    said = {n: x for n, x in norms.items() if n not in ("q", "k") or not is_declared}
    if said:
        words = (f"{names.get(n, n)}: {_norm_words(x)}" for n, x in said.items())
        found.words["spec.norms"] = "; ".join(words)


def _scale_beside_norms(found: Understanding) -> None:
    """Any scale is usual where norms set the length of queries and keys, as in cosines."""
    spec, norms = found.subject.spec, found.subject.extras.norms
    of_heads = [norm for name, norm in norms.items() if name.removeprefix("turned ") in ("q", "k")]
    if spec.scale is not None or found.scale is None or len(of_heads) < 2:
        return
    if all(norm.sets_scale for norm in of_heads):
        found.subject = found.subject.with_spec(scale=found.scale)
        found.words["spec.scale"] = (
            f"{found.scale:g}, beside norms that set the length of queries and keys"
        )


def _norm_words(norm: RowNorm) -> str:
    kind = {"rms": "RMS norm", "layer": "layer norm", "l2": "norm to length one"}[norm.kind]
    return f"{kind} {'over all heads' if norm.over == 'all' else ''}".strip()


def _weights(found: Understanding, callee: Callee, reading: Reading) -> None:
    """The weights that were found, by the entries of the parameters that hold them."""
    subject = found.subject
    if subject.call.form == "heads":
        found.subject = replace(subject, params=ParamSpec(layout="identity"))
        if reading.scores is not None and reading.q is not None and reading.k is not None:
            found.scale = reading.scores.factor * reading.q.factor * reading.k.factor
        return
    if not reading.is_whole:
        return
    named = callee.arguments or _held(callee.made, found.names)
    try:
        made = found_weights(named, reading, subject.spec.heads)
    except ManyHeadsError as error:
        says = f"the weights do not fit together: {error}"
        found.departures.append(Departure(step="q", says=says, line=None, is_foreign=True))
        return
    values = made.known.values
    guessed = subject.params or ParamSpec(layout="found")
    found.subject = replace(subject, params=replace(guessed, found=made.known)).with_spec(
        num_kv_heads=values.num_kv_heads, head_dim=values.head_dim, v_head_dim=values.v_head_dim
    )
    if reading.scores is not None:
        found.scale = reading.scores.factor * made.factors["q"] * made.factors["k"]
    _judge_factors(found, made.factors)
    found.words["params"] = made.words


def _held(made: object, names: frozenset[str]) -> dict[str, Tensor]:
    """The tensors of a subject, without those that calls have left there."""
    return {name: x for name, x in all_tensors(made).items() if name in names}


def _judge_factors(found: Understanding, factors: Mapping[str, float]) -> None:
    """Values and output must not be multiplied by a number."""
    names = {"v": "values", "o": "the output"}
    for role, step in (("v", "v"), ("o", "output")):
        factor = factors.get(role, 1.0)
        if abs(factor - 1.0) > 1e-6:
            says = f"{names[role]} times {factor:.6g} enter the result"
            found.departures.append(Departure(step=step, says=says.capitalize(), line=None))


_FOREIGN = {
    "tanh": "tanh",
    "sigmoid": "a sigmoid",
    "relu": "a ReLU",
    "silu": "a SiLU",
    "gelu": "a GELU",
    "topk": "a choice of the largest",
    "sort": "a sorting",
    "clamp": "a clamp",
    "cumsum": "a running sum",
    "native_layer_norm": "a layer norm",
    "_fused_rms_norm": "an RMS norm",
    "rms_norm": "an RMS norm",
    "native_group_norm": "a group norm",
    "rsqrt": "a norm",
    "linalg_vector_norm": "a norm",
    "native_batch_norm": "a batch norm",
    "sin": "an angle of the input",
    "cos": "an angle of the input",
    "softplus": "a softplus",
    "glu": "a gated linear unit",
    "sign": "a sign",
    "argmax": "a choice of the largest",
    "elu": "an ELU",
    "fft_fft": "a Fourier transform",
}
"""Operations on data that are no part of plain attention, in words."""


def foreign_operations(known: Understanding) -> list[str]:
    """Operations that are no part of plain attention and were not understood, with their lines."""
    if known.seen is None:
        return []
    extras = known.subject.extras
    understood = set()
    if extras.softcap is not None:
        understood.add("tanh")
    if known.reading is not None and known.reading.gate is not None:
        understood.add("sigmoid")
    if extras.norms:
        understood |= {n for n, words in _FOREIGN.items() if "norm" in words}
    found = []
    for event in known.seen.structure.events:
        words = _FOREIGN.get(event.op.rstrip("_"))
        is_data = any(storage_of(x) in known.seen.structure.data for x in event.out)
        if words is None or not is_data or event.op in understood:
            continue
        line = f" in line {event.line.number}" if event.line is not None else ""
        found.append(f"{words} is applied{line}")
    return list(dict.fromkeys(found))
