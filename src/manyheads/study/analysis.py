"""What a run's heads do, measured on validation windows with the weights that were chosen."""

from typing import Any

from manyheads.data.windows import fixed_slice
from manyheads.heads.analysis import analyse_heads
from manyheads.study.folder import RunKey
from manyheads.study.site import Site, fresh_model
from manyheads.study.state import load_tensors

_SEED = 1
_CHOOSING = 256  # windows that choose the next head to go; the others measure


def heads_of_run(run: RunKey, site: Site) -> dict[str, Any] | None:
    """The analysis of a run's heads, or None where the plan asks for none or there are no heads.

    Args:
        run: a run whose best weights are saved.
        site: where.

    Raises:
        StudyError: the weights are damaged.
    """
    plan = site.folder.plan
    count, config = plan.protocol.analysed_windows, plan.config(run.model)
    if count is None or config.num_heads is None or run.check_rate is not None:
        return None
    tensors, _ = load_tensors(site.folder.best(run))
    model = fresh_model(site, run).model
    model.load_state_dict(tensors)
    validation = site.corpus.validation
    tokens, targets = validation.windows(fixed_slice(validation, count, seed=_SEED))
    device = site.crew.device
    found = analyse_heads(
        model, tokens.to(device), targets[:, 0].to(device), num_choosing=_CHOOSING
    )
    return found.to_dict()
