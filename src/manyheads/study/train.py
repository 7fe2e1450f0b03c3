"""One training run: steps, validation, saving, resuming, and the analysis of its heads.

A step depends only on parameters, moments and its number, because seed and number determine the
order of the data. So a resumed run gives the same bits as a run without a stop.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.core.errors import StudyError
from manyheads.data.windows import Corpus, DrawnOrder, TrainingOrder, fixed_slice
from manyheads.heads.analysis import analyse_heads
from manyheads.heads.labelled import measure_labelled
from manyheads.models.training_step import CandidateSampler
from manyheads.study.corpus import mean_loss, target_counts
from manyheads.study.folder import RunKey, make_folder
from manyheads.study.optimiser import DivergedError, FlatAdamW, learning_rate_at
from manyheads.study.plan import Plan
from manyheads.study.site import Event, Site, Stopped, fresh_model
from manyheads.study.state import Progress, load_tensors, save_tensors

_SEED = 1
_CHOOSING = 256  # windows that choose the next head to remove; the others measure


def heads_of_run(run: RunKey, site: Site) -> dict[str, Any] | None:
    """The analysis of a run's heads, or None if the plan has no analysis or the model no heads.

    Args:
        run: a run whose best weights are saved.
        site: context of the run.

    Raises:
        StudyError: the weights are damaged.
    """
    plan = site.folder.plan
    count, config = plan.protocol.analysed_windows, plan.config(run.model)
    if count is None or config.num_heads is None or run.check_rate is not None:
        return None
    model = _best_model(run, site)
    validation = site.corpus.validation
    tokens, targets = validation.windows(fixed_slice(validation, count, seed=_SEED))
    device = site.crew.device
    found = analyse_heads(
        model, tokens.to(device), targets[:, 0].to(device), num_choosing=_CHOOSING
    )
    return found.to_dict()


def labelled_of_run(run: RunKey, site: Site) -> dict[str, Any] | None:
    """The measure of labelled words of a run, or None if the plan has none.

    The stories follow those of the plan, so no model was trained on them.

    Args:
        run: a run whose best weights are saved.
        site: context of the run.

    Raises:
        StudyError: the weights are damaged.
    """
    data, count = site.folder.plan.data, site.folder.plan.protocol.labelled_stories
    if count is None or data.source != "stories" or run.check_rate is not None:
        return None
    assert data.count is not None  # checked by the plan
    found = measure_labelled(
        _best_model(run, site).cpu(),
        site.corpus.tokenizer.encode,
        count=count,
        seed=data.seed,
        first_index=data.count,
    )
    return found.to_dict()


def _best_model(run: RunKey, site: Site) -> nn.Module:
    """The model of a run with its best weights."""
    tensors, _ = load_tensors(site.folder.best(run))
    model = fresh_model(site, run).model
    model.load_state_dict(tensors)
    return model


VALIDATION_SEED = 0
"""Random seed of the fixed validation slice, in every study."""
SECONDS_BETWEEN_NEWS = 0.25


class Training:
    """The training of one run.

    Args:
        run: the run.
        site: where.

    Raises:
        StudyError: a saved state is damaged or of another run.
    """

    def __init__(self, run: RunKey, site: Site) -> None:
        self.run, self.site = run, site
        plan, corpus, crew = site.folder.plan, site.corpus, site.crew
        self.protocol = protocol = plan.protocol
        is_check = run.check_rate is not None
        self.steps = (protocol.lr_check_steps if is_check else None) or protocol.steps
        self.peak = site.folder.learning_rate(run)
        self.trainable = fresh_model(site, run)
        self.optimiser = FlatAdamW(
            self.trainable.flat,
            weight_decay=plan.model(run.model).weight_decay,
            eps=protocol.eps,
            clip=protocol.clip,
        )
        self.order = _order(site, run)
        self.sampler = _sampler(site, run)
        self.slice = validation_slice(plan, corpus)
        self.progress = Progress()
        self._clock = (time.perf_counter(), time.process_time())
        self._told = 0.0
        self.device = crew.device

    def go(self) -> None:
        """Train to the end, and write the run's record.

        Raises:
            Stopped: a stop was requested; the state is saved.
            DivergedError: a loss is not finite; a learning-rate check records it and ends.
            StudyError: a file cannot be read or written.
        """
        self._restore()
        self._clock = (time.perf_counter(), time.process_time())
        self._tell("begin")
        try:
            self._take_steps()
        except DivergedError:
            if self.run.check_rate is None:
                raise
            self._finish(has_diverged=True)
        else:
            self._finish()

    def _take_steps(self) -> None:
        while not self._is_done():
            is_stopping = self._step()
            step = self.progress.step
            if step % self.protocol.validate_every == 0 or step == self.steps:
                self._validate()
                self._save()
            elif step % self.protocol.save_every == 0:
                self._save()
            if is_stopping and not self._is_done():
                self._save()
                raise Stopped(f"run {self.run.name} is saved at step {step} of {self.steps}")

    def _is_done(self) -> bool:
        """Whether all steps are taken, or the last validations found nothing better."""
        now, limit = self.progress, self.protocol.stop_after
        if limit is None or not now.trace:
            return now.step >= self.steps
        return now.step >= self.steps or now.trace[-1]["step"] - now.best_step >= limit

    def _step(self) -> bool:
        """Take a step, and return whether to stop after it."""
        step, crew, held = self.progress.step, self.site.crew, self.trainable
        tokens, targets = self.order.batch(step)
        num_targets = int((targets != 0).sum())
        held.grad.zero_()
        some = None if self.sampler is None else self.sampler.choose(step, targets)
        loss = held.accumulate(self._share(tokens), self._share(targets), some)
        grad = crew.total(held.grad)
        told = torch.tensor([loss.item(), self.site.is_stopping()], dtype=crew.sum_dtype)
        loss_sum, stops = crew.total(told.to(self.device)).tolist()
        rate = learning_rate_at(step, self.steps, self.protocol, self.peak)
        self._update(grad.div_(num_targets), rate, loss_sum / num_targets)
        self.progress = replace(
            self.progress,
            step=step + 1,
            loss_sum=self.progress.loss_sum + loss_sum,
            loss_targets=self.progress.loss_targets + num_targets,
            tokens_seen=self.progress.tokens_seen + num_targets,
        )
        self._tell_step()
        return bool(stops)

    def _share(self, batch: Tensor) -> Tensor:
        """The part of a batch of this process."""
        crew = self.site.crew
        part = batch if crew.size == 1 else batch.tensor_split(crew.size)[crew.rank]
        return part.to(self.device)

    def _update(self, grad: Tensor, rate: float, loss: float) -> None:
        try:
            if not math.isfinite(loss):
                raise DivergedError("the loss is not a finite number: lower the learning rate")
            self.optimiser.step(grad, rate)
        except DivergedError as error:
            raise DivergedError(
                f"run {self.run.name}, step {self.progress.step + 1}: loss ({loss}), learning rate "
                f"({rate:g}): {error}; files saved before are intact"
            ) from error

    def _validate(self) -> None:
        loss = mean_loss(self.trainable, self.site.corpus.validation, self.slice, self.site.crew)
        now = self.progress
        if not math.isfinite(loss):
            raise DivergedError(
                f"run {self.run.name}, step {now.step}: validation loss ({loss}) is not a "
                "finite number: lower the learning rate; files saved before are intact"
            )
        last = learning_rate_at(now.step - 1, self.steps, self.protocol, self.peak)
        numbers = {
            "train_loss": now.loss_sum / now.loss_targets,
            "validation_loss": loss,
            "learning_rate": last,
        }
        entry = {"step": now.step, **numbers}
        now = replace(now, loss_sum=0.0, loss_targets=0, trace=(*now.trace, entry))
        if now.best_loss is None or loss < now.best_loss:
            digest = self._save_best(now.step, loss)
            now = replace(now, best_step=now.step, best_loss=loss, best_sha256=digest)
        self.progress = now
        self._tell("validation", numbers)

    def _save_best(self, step: int, loss: float) -> str:
        if not self.site.crew.is_first:
            return ""
        facts = self._facts() | {"step": step, "validation_loss": loss}
        path = self.site.folder.best(self.run)
        return save_tensors(path, self.trainable.model.state_dict(), facts)

    def _facts(self) -> dict[str, Any]:
        """The metadata of every file of this run."""
        return {
            "run": self.run.name,
            "config": self.trainable.config.to_dict(),
            "seed": self.run.seed,
            "plan_sha256": self.site.folder.plan.sha256,
            "data_sha256": self.site.corpus.sha256,
            "tokenizer_sha256": self.site.corpus.tokenizer.sha256,
        }

    def _tensors(self) -> dict[str, Tensor]:
        moments = self.optimiser.state().items()
        return {"flat": self.trainable.flat} | {f"optimiser.{name}": t for name, t in moments}

    def _save(self) -> None:
        self._count_time()
        if self.site.crew.is_first:
            facts = self._facts() | {"progress": self.progress.to_dict()}
            save_tensors(self.site.folder.state(self.run), self._tensors(), facts)

    def _count_time(self) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        self.progress = replace(
            self.progress,
            seconds=self.progress.seconds + wall - self._clock[0],
            cpu_seconds=self.progress.cpu_seconds + cpu - self._clock[1],
        )
        self._clock = (wall, cpu)

    def _restore(self) -> None:
        """Resume from the saved state, if there is one."""
        path = self.site.folder.state(self.run)
        make_folder(path.parent)
        if not self.site.crew.agreed(path.exists()):
            return
        tensors, facts = load_tensors(path)
        for name, value in self._facts().items():
            if facts.get(name) != value:
                raise StudyError(
                    f"file ({path}) has another {name} ({facts.get(name)}, expected {value}): "
                    "delete it to restart that run"
                )
        flat = tensors.pop("flat", torch.empty(0))
        if flat.shape != self.trainable.flat.shape or flat.dtype != self.trainable.flat.dtype:
            raise StudyError(
                f"file ({path}) has {flat.numel()} parameters of {flat.dtype}, expected "
                f"{self.trainable.flat.numel()} of {self.trainable.flat.dtype}: use the same "
                "precision, or delete it to restart that run"
            )
        self.trainable.flat.copy_(flat)
        moments = {name.removeprefix("optimiser."): t for name, t in tensors.items()}
        self.optimiser.load({name: moment.to(self.device) for name, moment in moments.items()})
        self.progress = Progress.from_dict(facts["progress"])

    def _finish(self, *, has_diverged: bool = False) -> None:
        self._count_time()
        if self.site.crew.is_first:
            measures = {"heads": heads_of_run, "labelled": labelled_of_run}
            found = {name: measure(self.run, self.site) for name, measure in measures.items()}
            found = {name: value for name, value in found.items() if value is not None}
            self.site.folder.write_record(self.run, self._record(has_diverged) | found)
        self.site.crew.wait()
        if has_diverged:
            says = "the loss is not a finite number: this learning rate is not chosen"
            self.site.report(Event(run=self.run.name, kind="note", says=says))
        self._tell("done")

    def _record(self, has_diverged: bool) -> dict[str, Any]:
        """The record of the run, without the measures that follow the training."""
        now, config = self.progress, self.trainable.config
        return {
            "model": self.run.model,
            "num_heads": config.num_heads,
            "seed": self.run.seed,
            "parameters": config.num_parameters,
            "steps": now.step,
            "selected_step": now.best_step,
            "validation_loss": None if has_diverged else now.best_loss,
            "has_diverged": has_diverged,
            "seconds": now.seconds,
            "cpu_seconds": now.cpu_seconds,
            "tokens_seen": now.tokens_seen,
            "learning_rate": self.peak,
            "trace": [dict(entry) for entry in now.trace],
            "sha256": now.best_sha256,
            "plan_sha256": self.site.folder.plan.sha256,
            "data_sha256": self.site.corpus.sha256,
            "environment": dict(self.site.environment),
        }

    def _tell_step(self) -> None:
        now = time.monotonic()
        if now - self._told >= SECONDS_BETWEEN_NEWS:
            self._told = now
            self._tell("step")

    def _tell(self, kind: str, numbers: Mapping[str, float] | None = None) -> None:
        if self.site.crew.is_first:
            event = Event(run=self.run.name, kind=kind, step=self.progress.step, steps=self.steps)
            self.site.report(replace(event, **(numbers or {})))  # type: ignore[arg-type]  # floats


def validation_slice(plan: Plan, corpus: Corpus) -> Tensor:
    """Indices (N,) of the targets on which a plan's runs are validated."""
    split, count = corpus.validation, plan.protocol.validation_windows
    if plan.protocol.validation_slice == "first":
        return split.positions[:count]
    return fixed_slice(split, count, seed=VALIDATION_SEED)


def _order(site: Site, run: RunKey) -> DrawnOrder | TrainingOrder:
    """The batches of a run."""
    protocol, split = site.folder.plan.protocol, site.corpus.train
    if protocol.draws is not None:
        return DrawnOrder(split, batch_targets=protocol.batch_targets, seed=run.seed)
    return TrainingOrder(
        split,
        batch_targets=protocol.batch_targets,
        targets_per_window=protocol.targets_per_window,
        seed=run.seed,
    )


def _sampler(site: Site, run: RunKey) -> CandidateSampler | None:
    """The sampler of the words that training steps score; None if they score all."""
    protocol = site.folder.plan.protocol
    if protocol.scored_head is None or protocol.scored_tail is None:
        return None
    return CandidateSampler(
        counts=target_counts(site.corpus),
        head=protocol.scored_head,
        tail=protocol.scored_tail,
        seed=run.seed,
        device=site.crew.device,
    )
