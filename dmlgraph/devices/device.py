"""Device: something that compiles and runs lowered graphs.  Family: the devices of one module, and their names."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Self

from dmlgraph.base.errors import DeviceError, DmlGraphError
from dmlgraph.base.levels import FeatureLevel
from dmlgraph.devices.names import DeviceName as DeviceName  # noqa: PLC0414 - imported from here, too

if TYPE_CHECKING:
    from dmlgraph.compiler.desc import GraphDesc
    from dmlgraph.compiler.target import Target
    from dmlgraph.devices.executable import Executable


class Device(abc.ABC):
    """A place where graphs run.

    Attributes:
        name: as the user writes it.
        description: what it is, in a phrase.
        level: the highest feature level it runs.
        newer: how to get a higher one; None if there is no way.
        adapter_name: of the hardware; empty where it makes no difference.
        driver_version: numbers with dots between; empty where nothing says it.
        remark: what who asked for its name may not expect; a phrase, mostly empty.
    """

    name: str
    description: str
    level: FeatureLevel
    newer: str | None = None
    adapter_name: str = ""
    driver_version: str = ""
    remark: str = ""

    @property
    @abc.abstractmethod
    def target(self) -> Target:
        """What the compiler must know of the device.  It is imported when asked for: the passes take long to import."""

    def with_threads(self, threads: int) -> Device:
        """The device with a number of threads for a run.

        Raises:
            DeviceError: it does not take one.
        """
        raise DeviceError(
            f"'{self.name}' does not take a number of threads", code="conflict", field="threads", got=threads
        )

    def with_permissions(self, *, metacommands: bool, half_precision: bool) -> Device:
        """The device with other permissions for what compiles and runs on it.

        A permission may be left unused.  Devices without metacommands that always compute in the type of the tensors,
        or in a wider one, are the same with any.

        Args:
            metacommands: whether the driver's own implementations of operators may be used.
            half_precision: whether float32 may be computed in float16 where the hardware is faster so.
        """
        return self

    @abc.abstractmethod
    def compile(self, graph: GraphDesc, *, reason: str, debug: bool = False) -> Executable:
        """Compiles a lowered graph; `reason` says why this device was chosen.

        Raises:
            DeviceError: the device cannot run the graph, or failed.
        """

    def needs(self, graph: GraphDesc) -> dict[str, int]:
        """What a lowered graph needs on the device, by the names in an executable's `stats`: descriptors, bytes.

        Raises:
            DeviceError: the device cannot run the graph, or failed.
        """
        with self.compile(graph, reason="what it needs") as executable:
            return {key: executable.stats[key] for key in _NEEDS if key in executable.stats}

    def plan(self, graph: GraphDesc) -> str:
        """The steps in which the device runs a lowered graph, as text; empty where they are not known here."""
        return ""


@dataclasses.dataclass(frozen=True, slots=True)
class Listing:
    """A device for `dmlgraph devices`; `missing` says why it cannot be used here, and is None if it can."""

    name: str
    description: str
    missing: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Family:
    """The devices of a module in this folder, which has it as `FAMILY`.  Their names begin with the module's.

    Attributes:
        names: what editors and shells complete, each with a phrase; see `dmlgraph.devices.names`.
        make: the device from what follows the family's name and a colon, or from "" if nothing does, and from whether
            its own checks are wanted (`debug`).  It returns None where that names no device, and raises a DeviceError
            if the device cannot be used here.
        find: lists the devices of this machine.
    """

    names: Mapping[str, str]
    make: Callable[[str, bool], Device | None]
    find: Callable[[], list[Listing]]

    @classmethod
    def of(cls, device: type[Device]) -> Self:
        """The family of a single device, which is always there."""
        return cls(
            {device.name: device.description},
            lambda rest, _: None if rest else device(),
            lambda: [Listing(device.name, device.description)],
        )


_NEEDS = ("descriptor_count", "temporary_bytes", "persistent_bytes", "arena_bytes", "scratch_bytes")

# The codes of errors of a compilation that say: the device lacks something that the graph needs.
_LACKING = frozenset({"level", "dtype", "refused", "too-large"})


def lacks(error: DmlGraphError) -> bool:
    """Whether an error of a compilation says that the device lacks something, so that another may run the graph."""
    return all(problem.code in _LACKING for problem in error.problems)


@contextlib.contextmanager
def native_needed() -> Iterator[None]:
    """For imports of modules that need the native module: raises DeviceError if it cannot be loaded."""
    try:
        yield
    except ImportError as error:
        raise DeviceError(
            f"the native module of dmlgraph cannot be loaded: {error}",
            code="native-module",
            hint="in a folder with dmlgraph's sources, change to another folder so that the installed package is used",
        ) from None
