"""Device, precision and processes of a study; Lightning Fabric if there are several processes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from manyheads.core.errors import StudyError
from manyheads.core.extras import require

if TYPE_CHECKING:
    from lightning_fabric import Fabric

DEVICES = ("cpu", "cuda", "mps", "auto")
_DTYPES = {"32-true": torch.float32, "64-true": torch.float64}
PRECISIONS = tuple(_DTYPES)
MAX_PROCESSES = 256


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The hardware settings of a study; they do not change the plan."""

    device: str = "cpu"
    """"cpu", "cuda", "mps", or "auto": the best available one."""
    devices: int = 1
    """Devices that share each run's batches, on this computer."""
    precision: str = "32-true"
    """"32-true" or "64-true": float32 or float64 throughout."""
    jobs: int = 1
    """Number of runs at a time, each in its own process."""
    threads: int = 1
    """Threads of each process; the last bits of a result depend on it."""

    def __post_init__(self) -> None:
        for name, known in (("device", DEVICES), ("precision", PRECISIONS)):
            value = getattr(self, name)
            if value not in known:
                raise StudyError(f"{name} ({value}) is not known: use one of {', '.join(known)}")
        for name in ("devices", "jobs", "threads"):
            value = getattr(self, name)
            if not 1 <= value <= MAX_PROCESSES:
                raise StudyError(
                    f"{name} ({value}) must be from 1 to {MAX_PROCESSES}: use a number in this "
                    "range"
                )

    @property
    def needs_workers(self) -> bool:
        """Whether runs use worker processes."""
        return not launched_outside() and self.jobs * self.devices > 1

    @property
    def is_plain(self) -> bool:
        """Whether one process on the CPU is enough, which does not need Fabric."""
        return self.device == "cpu" and self.devices == 1


@dataclass(frozen=True, kw_only=True)
class Crew:
    """The processes that share a run's batches, seen from one of them."""

    device: torch.device
    """Device of this process."""
    dtype: torch.dtype
    """Data type of parameters, gradients and moments."""
    rank: int = 0
    """Index of this process; only process 0 writes files."""
    size: int = 1
    """Number of processes."""
    fabric: "Fabric | None" = None
    """The Fabric that connects them; None for a single process."""

    @property
    def is_first(self) -> bool:
        """Whether this process writes the files."""
        return self.rank == 0

    @property
    def sum_dtype(self) -> torch.dtype:
        """Data type of sums over processes: the widest that the device supports."""
        return torch.float32 if self.device.type == "mps" else torch.float64

    def total(self, part: Tensor) -> Tensor:
        """The sum of all processes' tensors."""
        if self.fabric is None or self.size == 1:
            return part
        summed = self.fabric.all_reduce(part, reduce_op="sum")
        assert isinstance(summed, Tensor)
        return summed

    def agreed(self, value: Any) -> Any:  # noqa: ANN401 - any plain value
        """The value of the first process."""
        return value if self.fabric is None else self.fabric.broadcast(value)

    def wait(self) -> None:
        """Wait until all processes reach this call."""
        if self.fabric is not None:
            self.fabric.barrier()


def launched_outside() -> bool:
    """Whether torchrun, SLURM or a parent process of ours has started several processes."""
    if "LOCAL_RANK" in os.environ:
        return True
    interactive = os.environ.get("SLURM_JOB_NAME") in ("bash", "interactive")
    return _told("SLURM_NTASKS", 1) > 1 and not interactive


def is_first_process() -> bool:
    """Whether this process prints for all processes that a launcher started."""
    return not launched_outside() or _told("RANK", _told("SLURM_PROCID", 0, 0), 0) == 0


def _told(name: str, default: int, least: int = 1) -> int:
    """A number that a launcher set in the environment.

    Raises:
        StudyError: it is not a whole number in range.
    """
    text = os.environ.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 8 and int(text) >= least):
        rule = f"must be a whole number from {least}"
        raise StudyError(f"{name} ({text[:40]}) {rule}: unset it, or start with torchrun or srun")
    return int(text)


def join_crew(machine: Machine) -> Crew:
    """Join the processes that share the work; one Fabric launch.

    Raises:
        StudyError: Fabric is not installed, or does not have this device.
    """
    torch.set_num_threads(machine.threads)
    dtype = _DTYPES[machine.precision]
    outside = launched_outside()
    if machine.is_plain and not outside:
        return Crew(device=torch.device("cpu"), dtype=dtype)
    local, nodes = _layout() if outside else (machine.devices, 1)
    fabric = _launched(machine, local, nodes)
    return Crew(
        device=fabric.device,
        dtype=dtype,
        rank=fabric.global_rank,
        size=fabric.world_size,
        fabric=fabric,
    )


def _layout() -> tuple[int, int]:
    """Number of processes per computer and of computers, from the launcher's environment."""
    if "LOCAL_RANK" in os.environ and "WORLD_SIZE" in os.environ:
        size = _told("WORLD_SIZE", 1)
        local = _told("LOCAL_WORLD_SIZE", size)
        return local, max(1, size // local)
    nodes = _told("SLURM_NNODES", 1)
    return _told("SLURM_NTASKS", 1) // nodes, nodes


def _launched(machine: Machine, local: int, nodes: int) -> "Fabric":
    purpose = f"device {machine.device} with {local * nodes} process(es)"
    require("study", "lightning-fabric", purpose=purpose)
    from lightning_fabric import Fabric

    several = local * nodes > 1
    try:
        with _quiet_fabric():
            fabric = Fabric(
                accelerator=machine.device,
                devices=local,
                num_nodes=nodes,
                strategy="ddp" if several else "auto",
                precision=machine.precision,  # type: ignore[arg-type]  # checked by Machine
            )
            fabric.launch()
    except (RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise StudyError(
            f"device ({machine.device}) cannot be used ({reason}): use another --device"
        ) from error
    return fabric


@contextmanager
def _quiet_fabric() -> Iterator[None]:
    """Suppress Fabric's messages about settings that the user chose."""
    import logging
    import warnings

    logger = logging.getLogger("lightning_fabric")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def environment(machine: Machine, crew: Crew) -> dict[str, Any]:
    """The environment of a result: versions, device, precision, processes and threads."""
    import platform
    from importlib.metadata import version

    is_cuda = crew.device.type == "cuda"
    return {
        "manyheads": version("manyheads"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "tokenizers": version("tokenizers"),
        "numpy": version("numpy"),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": torch.cuda.get_device_name(crew.device) if is_cuda else _processor(),
        "device": crew.device.type,
        "precision": machine.precision,
        "processes": max(crew.size, machine.devices),
        "threads": machine.threads,
        "jobs": machine.jobs,
    }


def _processor() -> str:
    """The name of the processor, if the system has it."""
    import platform

    try:
        with open("/proc/cpuinfo", encoding="utf-8") as stream:
            for line in stream:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"
