"""The native extension module: operator descriptors and the DirectML runtime."""

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import numpy as np

from dmlgraph.base.tensor import DataType
from dmlgraph.base.tensor import TensorDesc as Desc

class TensorDesc:
    """A DML_BUFFER_TENSOR_DESC; sizes and strides in elements."""

    def __init__(
        self,
        data_type: int,
        flags: int,
        sizes: Sequence[int],
        strides: Sequence[int] | None,
        total_bytes: int,
        alignment: int = 0,
    ) -> None: ...
    @property
    def data_type(self) -> int: ...
    @property
    def flags(self) -> int: ...
    @property
    def sizes(self) -> list[int]: ...
    @property
    def strides(self) -> list[int] | None: ...
    @property
    def total_bytes(self) -> int: ...
    @property
    def alignment(self) -> int: ...

class PackedDesc:
    """An operator as the bytes of its C struct; lives at a fixed address."""

    @property
    def type(self) -> int: ...
    @property
    def address(self) -> int:
        """Address of the operator's struct."""
    @property
    def block_address(self) -> int: ...
    @property
    def block(self) -> bytes:
        """A copy of the whole block: the struct and everything its pointers reach."""

class OperatorDesc:
    """An operator's type and its fields in the order of its C struct.

    A field is a pair of its kind and its value:

    | kind | value |
    |---|---|
    | tensor | TensorDesc, or None where there is none |
    | tensors | sequence of TensorDesc |
    | u32, i32, u64, enum | int |
    | f32 | float |
    | bool | bool |
    | scalar | the 8 bytes of a DML_SCALAR_UNION |
    | u32s, i32s, f32s | sequence of numbers |
    | scale_bias | (scale, bias), or None |
    | size_2d | (width, height) |
    | operator | OperatorDesc, or None; it holds no operator itself |
    | operators | sequence of OperatorDesc |

    Counts of sequences are u32 fields of their own. A wrong kind or value raises TypeError or ValueError with
    the index of the field and what was expected.
    """

    def __init__(self, type: int, fields: Sequence[tuple[str, object]]) -> None: ...
    @property
    def type(self) -> int: ...
    def layout(self) -> tuple[int, int, list[int]]:
        """(size, alignment, offsets) of the C struct, in bytes."""
    def pack(self) -> PackedDesc: ...

def struct_layout(kinds: Sequence[str]) -> tuple[int, int, list[int]]:
    """(size, alignment, offsets) of a C struct with fields of these kinds, in bytes."""

class Adapter:
    """An adapter that DXCore lists; memory in bytes."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> Literal["gpu", "npu", "software"]: ...
    @property
    def luid(self) -> int: ...
    @property
    def integrated(self) -> bool: ...
    @property
    def dedicated_bytes(self) -> int: ...
    @property
    def shared_bytes(self) -> int: ...
    @property
    def driver_version(self) -> str: ...

class Library:
    """Direct3D 12, DXCore and DirectML, loaded for good."""

    @staticmethod
    def load(
        directml: str | PathLike[str],
        d3d12: str | PathLike[str],
        dxcore: str | PathLike[str],
        dxgi: str | PathLike[str] | None = None,
    ) -> Library:
        """The libraries of these paths; a plain file name is looked for by the system.  DXGI stands in for DXCore.

        Raises:
            LibraryError: one cannot be loaded, or the process uses other ones already.
        """
    @property
    def files(self) -> list[tuple[Path, str]]:
        """The loaded files of DirectML, Direct3D 12 and what lists the adapters; their versions may be empty."""
    @staticmethod
    def probe(d3d12: str | PathLike[str], dxcore: str | PathLike[str]) -> tuple[str, bool]:
        """Why no adapter works with these libraries, empty if one does; and whether, if not, they stay loaded."""
    @property
    def lists_by(self) -> str:
        """What lists the adapters: DXCore or DXGI."""
    def adapters(self) -> list[Adapter]:
        """Adapters that can compute, hardware first."""
    def counter(self, name: str) -> int | None:
        """What a software adapter has counted; None where it counts no such thing."""

class Device:
    """An adapter opened for DirectML; safe to use from several threads.

    With `debug` the debug layers are required, and errors carry their messages.  With `share_memory` nothing is
    copied between processor and adapter where they have one memory.  A list that takes longer than `timeout` seconds
    (0: no limit) is ended by removing the device.

    Raises:
        DebugLayerError: debug, and there is no debug layer, or the process already uses Direct3D 12 without it.
        LibraryError: DirectML is too old for graphs.
        DeviceRemovedError: the adapter's device was removed, and something in the process still holds it.
        DirectMLError: the device cannot be opened.
    """

    def __init__(
        self,
        library: Library,
        adapter: Adapter,
        *,
        debug: bool = False,
        gpu_validation: bool = False,
        share_memory: bool = False,
        timeout: float = 0.0,
    ) -> None: ...
    @property
    def adapter(self) -> Adapter: ...
    @property
    def feature_level(self) -> int:
        """The highest DML_FEATURE_LEVEL."""
    @property
    def lost(self) -> bool:
        """Whether the device was removed; it stays lost."""
    @property
    def d3d12_level(self) -> int:
        """The D3D_FEATURE_LEVEL that it was created with."""
    @property
    def debug(self) -> bool:
        """Whether the debug layers of Direct3D 12 and DirectML are on."""
    @property
    def runs_without_timeout(self) -> bool:
        """Whether a run may take longer than the 2 seconds after which Windows removes the device."""
    def require_alive(self, graph: str) -> None:
        """Raises DeviceRemovedError if the device is lost."""
    def drop(self) -> None:
        """Releases what a lost device holds; waits for calls that are inside it."""
    @property
    def shares_memory(self) -> bool:
        """Whether processor and adapter work on the same memory and may do so."""
    def supports(self, data_type: int) -> bool:
        """Whether a DML_TENSOR_DATA_TYPE is supported."""
    def try_compile(self, graph: GraphDesc, flags: int = 0) -> None:
        """Compiles a graph and drops what comes of it.

        Raises:
            DirectMLError: as `Executable`, for all that goes wrong before memory is allocated.
        """
    def remove(self) -> None:
        """Removes the device on purpose, as a crash of its driver would."""

class GraphDesc:
    """DML_GRAPH_DESC as plain data."""

    def __init__(
        self,
        name: str,
        inputs: Sequence[tuple[str, int, bool, bool]],
        outputs: Sequence[tuple[str, int, str]],
        nodes: Sequence[tuple[str, OperatorDesc | bytes]],
        input_edges: Sequence[tuple[int, int, int]],
        output_edges: Sequence[tuple[int, int, int]],
        intermediate_edges: Sequence[tuple[int, int, int, int]],
    ) -> None:
        """Made of plain tuples.

        Args:
            name: of the graph.
            inputs: (name, bytes, owned by DirectML, whether it is always a Resident).
            outputs: (name, bytes, where it goes: "back", always into a "resident", or as "rows" into a state).
            nodes: (name, operator), or (name, the bytes of a constant).
            input_edges: (graph input, to node, to port).
            output_edges: (from node, from port, graph output).
            intermediate_edges: (from node, from port, to node, to port).
        """

class Cancellation:
    """Asks a run to end soon, from any thread.  Adapters that cannot end it go on."""

    def __init__(self) -> None: ...
    def cancel(self) -> None: ...
    @property
    def cancelled(self) -> bool: ...

class Resident:
    """A tensor that stays in the adapter's memory.

    Raises:
        BufferTooLargeError, DirectMLError: there is no memory for it.
        DeviceRemovedError: the device is lost, and what it held; every method raises this.
    """

    def __init__(self, device: Device, bytes: int, what: str) -> None:
        """Zeros; `what` says what it is for."""
    @property
    def device(self) -> Device: ...
    @property
    def bytes(self) -> int: ...
    @property
    def resource(self) -> int:
        """The address of the ID3D12Resource."""
    def write(self, data: np.ndarray[Any, Any]) -> None:
        """Copies the bytes of an array into it."""
    def read(self, into: np.ndarray[Any, Any]) -> None:
        """Copies it into the memory of an array."""
    def copy(self, what: str) -> Resident:
        """Another one that holds the same."""
    def copy_from(self, other: Resident, pieces: Sequence[tuple[int, int, int]]) -> None:
        """Copies pieces of another one of the device: from which byte, to which byte, and how many bytes."""

# Of a run: input, output, and what the first step reads, then what the steps write in turns.
_Chain = tuple[int, int, Sequence[Resident]]
# Of a run: output, state, begin, rows of each step, blocks, bytes of a row, capacity; native/directml/run.h.
_Append = tuple[int, Resident, int, int, int, int, int]

class Executable:
    """A compiled graph with what running it takes.

    Raises:
        BufferTooLargeError: before anything is allocated.
        FeatureLevelError, DeviceRemovedError, DirectMLError: with the node, where it is known.
    """

    def __init__(self, device: Device, graph: GraphDesc, flags: int = 0, *, timed: bool = False) -> None:
        """Compiles a graph; if `timed`, `stats` has how long the adapter took for the last run."""
    def initialize(
        self, data: Sequence[np.ndarray[Any, Any] | bytes | None], cancellation: Cancellation | None = None
    ) -> int:
        """Takes the owned inputs' bytes (None for the others) into the persistent resource; returns its number.

        Before the first execution, and again whenever an owned input changes, or an initialisation fails.  It waits for
        the runs in flight.

        Raises:
            CancelledError: it was given up.
        """
    def run(
        self,
        initialization: int,
        inputs: Sequence[np.ndarray[Any, Any] | bytes | Resident | None],
        outputs: Sequence[np.ndarray[Any, Any] | Resident | None],
        cancellation: Cancellation | None = None,
        *,
        chains: Sequence[_Chain] = (),
        appends: Sequence[_Append] = (),
        steps: int = 1,
    ) -> bool:
        """Runs the graph from the inputs' bytes (None for owned inputs) into the outputs' memory.

        At the end of each, up to three bytes that belong to no element may be missing.  An input may have the bytes of
        every step, an output room for them.  None also stands for what a chain reads, and for what goes into a state.
        Several threads may run it at the same time.

        Returns:
            False if there was another initialisation since the one with this number: then nothing is run.

        Raises:
            CancelledError: it was cancelled, and no array is written but those for all steps.
        """
    def keep(self, output: int) -> Resident:
        """A tensor for an output that stays on the device; what it holds is undefined until a run writes it."""
    def close(self) -> None:
        """Frees what is held on the device, after the runs in flight; afterwards only `stats` can be asked."""
    @property
    def device(self) -> Device: ...
    @property
    def stats(self) -> dict[str, Any]: ...

_Descs = Sequence[Desc | None]
_Instruction = tuple[str, Sequence[int], DataType, DataType, Sequence[float]]
_Map = tuple[Sequence[int], Sequence[int], Sequence[int]]

class CpuGraph:
    """A graph for the CPU executor, node by node in executable order.

    A node has a name; by input the number of a value, or −1 where it is absent; the descriptions of its inputs and
    outputs; and what dmlgraph.devices.cpu.nodes says.  Values are the graph's inputs in order, then the outputs of
    every node in order, absent ones counted.

    Raises:
        ValueError, TypeError: a node makes no sense; the message names it.
    """

    def __init__(self, inputs: Sequence[Desc]) -> None:
        """`inputs`: the descriptions of the graph's inputs, packed."""
    def fill(self, name: str, sources: Sequence[int], inputs: _Descs, outputs: _Descs, element: bytes) -> None: ...
    def constant(self, name: str, sources: Sequence[int], inputs: _Descs, outputs: _Descs, data: bytes) -> None: ...
    def element_wise(
        self,
        name: str,
        sources: Sequence[int],
        inputs: _Descs,
        outputs: _Descs,
        instructions: Sequence[_Instruction],
    ) -> None: ...
    def reduce(
        self,
        name: str,
        sources: Sequence[int],
        inputs: _Descs,
        outputs: _Descs,
        function: str,
        axes: Sequence[int],
    ) -> None: ...
    def view(
        self, name: str, sources: Sequence[int], inputs: _Descs, outputs: _Descs, maps: Sequence[_Map]
    ) -> None: ...
    def move(
        self,
        name: str,
        sources: Sequence[int],
        inputs: _Descs,
        outputs: _Descs,
        element: bytes | None,
        pieces: Sequence[tuple[int, Sequence[int], _Map | None, _Map]],
    ) -> None: ...
    def native(
        self,
        name: str,
        sources: Sequence[int],
        inputs: _Descs,
        outputs: _Descs,
        step: cpu_steps.Step,
        followers: Sequence[_Instruction],
    ) -> None: ...
    def evaluate(
        self,
        name: str,
        sources: Sequence[int],
        inputs: _Descs,
        outputs: _Descs,
        function: Callable[[list[np.ndarray[Any, Any] | None], list[np.ndarray[Any, Any] | None]], None],
    ) -> None: ...
    def delay(self) -> None:
        """Lets the last node run right before its readers, so that what it computes is not kept."""

class CpuExecutable:
    """A graph planned for the CPU executor.

    Args:
        name: of what is run, as a phrase for errors.
        graph: its nodes; is emptied.
        outputs: values.
        input_names, output_names: in slot order.
        constants: by input the array it always is, or None; is emptied.
        owned: by input whether it is kept from run to run, until another array is given.
        growing: of states that grow: the input, the axis of its rows, the input that says how many there are, the
            output with the new ones, and whether that is also a result; -1: there is none.
        let_go: is called with the number of an input whose array is not read any more, and with a function that makes
            the array again, since steps keep its elements packed, with all their bits.
        threads: how many share a run at most.

    Raises:
        ValueError, TypeError: a node makes no sense; the message names it.
    """

    def __init__(
        self,
        name: str,
        graph: CpuGraph,
        outputs: Sequence[int],
        input_names: Sequence[str],
        output_names: Sequence[str],
        constants: list[np.ndarray[Any, Any] | None],
        owned: Sequence[bool],
        growing: Sequence[tuple[int, int, int, int, bool]],
        let_go: Callable[[int, Callable[[], np.ndarray[Any, Any]]], None],
        threads: int,
    ) -> None: ...
    def run(self, inputs: object, out: object) -> dict[str, np.ndarray[Any, Any]] | None:
        """The outputs by name; None, and nothing has been done, where the arguments need a closer look."""
    def execute(
        self,
        arrays: list[np.ndarray[Any, Any]],
        outputs: list[np.ndarray[Any, Any] | None],
        written: Sequence[int],
        lengths: Sequence[int],
    ) -> dict[str, np.ndarray[Any, Any]]:
        """The outputs by name, from arrays that have been checked, in slot order; None: a new array.

        Args:
            written: of each state that grows, how many rows may be other than zero; empty: all.
            lengths: how many rows it has, which its input of the length is given; the new ones go behind them, and are
                no result if nothing else wants them.  Empty: the lengths are among the arrays, and nothing grows.
        """
    def profile(
        self,
        arrays: list[np.ndarray[Any, Any]],
        outputs: list[np.ndarray[Any, Any] | None],
        written: Sequence[int],
    ) -> list[tuple[tuple[str, ...], str, float, int]]:
        """Runs as `execute` does: (nodes, how they run, seconds, bytes read and written) of each step."""
    def bind(self, arrays: list[np.ndarray[Any, Any]], outputs: list[np.ndarray[Any, Any] | None]) -> BoundRun: ...
    def close(self) -> None: ...
    @property
    def steps(self) -> list[tuple[Literal["region", "native", "python"], tuple[str, ...], list[str], list[str]]]:
        """Of each step how it runs, its nodes, and the names of the buffers that it reads and writes."""
    @property
    def stats(self) -> dict[str, Any]: ...

class BoundRun:
    """Runs an executable on fixed arrays."""

    def __call__(self) -> dict[str, np.ndarray[Any, Any]]: ...

def cpu_default_threads() -> int:
    """DMLGRAPH_THREADS, or the processors this process may use."""

def cpu_keep_helpers_off(on: bool) -> None:
    """Whether a thread that is woken is kept off the processor of the one that wakes it: for a benchmark."""

def cpu_helpers() -> int:
    """The address of the threads that help runs of this process, for the software adapter."""

def cpu_roof(threads: int) -> tuple[float, float, float]:
    """Multiplications and additions a second, and bytes read and written a second, that the processor can do."""

def cpu_packed_bytes() -> int:
    """Bytes of what all executables of the process have packed of constants."""

def cpu_pooled_bytes() -> int:
    """Bytes of dropped results that wait for being used again."""

class cpu_kernels:  # noqa: N801 - a submodule
    """Single kernels of the CPU executor, for tests."""

    @staticmethod
    def levels() -> list[str]:
        """The instruction-set levels of this machine, ascending."""
    @staticmethod
    def opcodes() -> dict[str, tuple[int, int]]:
        """Numbers of operands and immediates by opcode."""
    @staticmethod
    def has_kernel(opcode: str, operand: int, result: int, level: str) -> bool:
        """Whether there is a kernel for these DML_TENSOR_DATA_TYPEs."""
    @staticmethod
    def apply(
        opcode: str,
        operand: int,
        result: int,
        operands: Sequence[np.ndarray[Any, Any]],
        out: np.ndarray[Any, Any],
        immediates: Sequence[int | float] = ...,
        level: str = "baseline",
        first: int = 0,
    ) -> None:
        """Runs a kernel over packed arrays; an array without dimensions stands for all elements.

        Raises:
            ValueError: there is no such kernel, or the arrays do not fit it.
        """

# Made by tools/generators/native_stubs.py from the module.

class cpu_steps:  # noqa: N801 - a submodule
    """The parameters of the CPU executor's native steps."""

    class Step:
        """The parameters of a native step; its class has the step's name."""

        name: ClassVar[str]

    class Attention(Step):
        query: Final[list[int]]
        key: Final[list[int]]
        value: Final[list[int]]
        bias: Final[int]
        mask: Final[int]
        positions: Final[int]
        past_key: Final[int]
        past_value: Final[int]
        past_lengths: Final[int]
        query_heads: Final[int]
        key_heads: Final[int]
        mask_type: Final[int]
        factors: Final[list[float]]
        def __init__(
            self,
            *,
            query: Sequence[int],
            key: Sequence[int],
            value: Sequence[int],
            bias: int,
            mask: int,
            positions: int,
            past_key: int,
            past_value: int,
            past_lengths: int,
            query_heads: int,
            key_heads: int,
            mask_type: int,
            factors: Sequence[float],
        ) -> None: ...

    class BlockGemm(Step):
        transposes_a: Final[bool]
        transposes_b: Final[bool]
        has_four_bits: Final[bool]
        is_signed: Final[bool]
        sizes: Final[list[int]]
        scale: Final[list[int]]
        zero_point: Final[list[int]]
        has_integers: Final[bool]
        def __init__(
            self,
            *,
            transposes_a: bool,
            transposes_b: bool,
            has_four_bits: bool,
            is_signed: bool,
            sizes: Sequence[int],
            scale: Sequence[int],
            zero_point: Sequence[int],
            has_integers: bool,
        ) -> None: ...

    class Convolution(Step):
        groups: Final[int]
        strides: Final[list[int]]
        dilations: Final[list[int]]
        padding: Final[list[int]]
        mirrored: Final[bool]
        backward: Final[bool]
        def __init__(
            self,
            *,
            groups: int,
            strides: Sequence[int],
            dilations: Sequence[int],
            padding: Sequence[int],
            mirrored: bool,
            backward: bool,
        ) -> None: ...

    class Fold(Step):
        planes: Final[int]
        sizes: Final[list[int]]
        blocks: Final[list[int]]
        window: Final[list[int]]
        strides: Final[list[int]]
        dilations: Final[list[int]]
        padding: Final[list[int]]
        def __init__(
            self,
            *,
            planes: int,
            sizes: Sequence[int],
            blocks: Sequence[int],
            window: Sequence[int],
            strides: Sequence[int],
            dilations: Sequence[int],
            padding: Sequence[int],
        ) -> None: ...

    class FourBits(Step):
        spreads: Final[bool]
        is_signed: Final[bool]
        count: Final[int]
        def __init__(self, *, spreads: bool, is_signed: bool, count: int) -> None: ...

    class Gather(Step):
        batches: Final[int]
        tuples: Final[int]
        slice: Final[int]
        is_shared: Final[bool]
        sizes: Final[list[int]]
        def __init__(self, *, batches: int, tuples: int, slice: int, is_shared: bool, sizes: Sequence[int]) -> None: ...

    class GatherElements(Step):
        outer: Final[int]
        inner: Final[int]
        size: Final[int]
        taken: Final[int]
        def __init__(self, *, outer: int, inner: int, size: int, taken: int) -> None: ...

    class Gemm(Step):
        transposes_a: Final[bool]
        transposes_b: Final[bool]
        def __init__(self, *, transposes_a: bool, transposes_b: bool) -> None: ...

    class Nonzero(Step):
        members: Final[int]
        def __init__(self, *, members: int) -> None: ...

    class Pooling(Step):
        is_maximum: Final[bool]
        from_infinity: Final[bool]
        power: Final[int]
        taps: Final[list[int]]
        strides: Final[list[int]]
        dilations: Final[list[int]]
        padding: Final[list[int]]
        def __init__(
            self,
            *,
            is_maximum: bool,
            from_infinity: bool,
            power: int,
            taps: Sequence[int],
            strides: Sequence[int],
            dilations: Sequence[int],
            padding: Sequence[int],
        ) -> None: ...

    class PoolingGradient(Step):
        is_maximum: Final[bool]
        taps: Final[list[int]]
        strides: Final[list[int]]
        dilations: Final[list[int]]
        padding: Final[list[int]]
        def __init__(
            self,
            *,
            is_maximum: bool,
            taps: Sequence[int],
            strides: Sequence[int],
            dilations: Sequence[int],
            padding: Sequence[int],
        ) -> None: ...

    class Random(Step):
        count: Final[int]
        is_state: Final[bool]
        def __init__(self, *, count: int, is_state: bool) -> None: ...

    class Recurrent(Step):
        gates: Final[int]
        backward: Final[list[int]]
        bound: Final[list[float]]
        couples_input_forget: Final[bool]
        resets_after_product: Final[bool]
        def __init__(
            self,
            *,
            gates: int,
            backward: Sequence[int],
            bound: Sequence[float],
            couples_input_forget: bool,
            resets_after_product: bool,
        ) -> None: ...

    class RegionAlignment(Step):
        is_maximum: Final[bool]
        is_nearest: Final[bool]
        aligns_to_corners: Final[bool]
        least_samples: Final[int]
        most_samples: Final[int]
        scales: Final[list[float]]
        offsets: Final[list[float]]
        bounds: Final[list[float]]
        def __init__(
            self,
            *,
            is_maximum: bool,
            is_nearest: bool,
            aligns_to_corners: bool,
            least_samples: int,
            most_samples: int,
            scales: Sequence[float],
            offsets: Sequence[float],
            bounds: Sequence[float],
        ) -> None: ...

    class RegionPooling(Step):
        scale: Final[float]
        least: Final[float]
        def __init__(self, *, scale: float, least: float) -> None: ...

    class Resampling(Step):
        axes: Final[list[int]]
        taps: Final[list[int]]
        indices: Final[list[int]]
        weights: Final[list[float]]
        def __init__(
            self,
            *,
            axes: Sequence[int],
            taps: Sequence[int],
            indices: Sequence[int],
            weights: Sequence[float],
        ) -> None: ...

    class ResamplingGradient(Step):
        axes: Final[list[int]]
        counts: Final[list[int]]
        indices: Final[list[int]]
        weights: Final[list[float]]
        def __init__(
            self,
            *,
            axes: Sequence[int],
            counts: Sequence[int],
            indices: Sequence[int],
            weights: Sequence[float],
        ) -> None: ...

    class Reversal(Step):
        outer: Final[int]
        size: Final[int]
        inner: Final[int]
        def __init__(self, *, outer: int, size: int, inner: int) -> None: ...

    class Scan(Step):
        axis: Final[int]
        from_end: Final[bool]
        is_exclusive: Final[bool]
        is_product: Final[bool]
        def __init__(self, *, axis: int, from_end: bool, is_exclusive: bool, is_product: bool) -> None: ...

    class Scatter(Step):
        tuples: Final[int]
        slice: Final[int]
        sizes: Final[list[int]]
        def __init__(self, *, tuples: int, slice: int, sizes: Sequence[int]) -> None: ...

    class ScatterElements(Step):
        outer: Final[int]
        inner: Final[int]
        size: Final[int]
        given: Final[int]
        def __init__(self, *, outer: int, inner: int, size: int, given: int) -> None: ...

    class Top(Step):
        axis: Final[int]
        count: Final[int]
        descending: Final[bool]
        def __init__(self, *, axis: int, count: int, descending: bool) -> None: ...
