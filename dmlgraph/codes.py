"""The codes of problems and their meanings; each kind of problem has one code.

A code does not change when a message is reworded: programs rely on it.  docs/errors.md is generated from this.
"""

from __future__ import annotations

# Legal, but probably a mistake: reported, never raised.  A graph can allow them.
WARNINGS = {
    "unused-dim": "No size uses a dim.",
    "unused-node": "No output depends on a node.",
    "unused-input": "An input is never read.",
    "unused-constant": "A constant is never read.",
    "unused-template": "No node uses a template.",
    "unused-template-input": "No node of a template reads one of its inputs.",
    "sequence-range": "A sequence leaves the range of its data type.",
    "sequence-inexact": "A sequence of whole numbers stops being exact.",
}

ERRORS = {
    # Fields, of any kind.
    "missing": "A required field, section or tensor is missing.",
    "unknown-field": "No field, key or argument has this name here.",
    "unknown-name": "The word is not a value of the field.",
    "unknown-code": "No warning has this code.",
    "kind": "The value has the wrong kind for the field: text for a number, one value for a list.",
    "range": "A number is outside the allowed range.",
    "count": "A list has too many or too few entries.",
    "does-not-fit": "The data type cannot hold the number.",
    "conflict": "Two fields contradict each other, or exclude each other.",
    "duplicate": "A name, a key or an entry is given twice.",
    "undetermined": "A field, a data type or an output's sizes are not given and cannot be inferred.",
    # Tensors.
    "dtype": "A tensor has the wrong data type.",
    "unknown-dtype": "DirectML has no such data type.",
    "rank": "A tensor has too many or too few dimensions.",
    "sizes": "The sizes of tensors do not match one another or the operator.",
    "strides": "Strides do not match the sizes, or reach too far.",
    "too-large": "A tensor or a buffer is larger than DirectML can address.",
    "shared-memory": "Elements of an output share memory.",
    "masked": "The array is a masked array. Tensors have no masks.",
    "owned": "The operator does not accept this tensor in memory that DirectML owns.",
    # Operators and graphs.
    "level": "The operator, data type or field needs a higher feature level.",
    "unknown-level": "DirectML has no feature level of this number.",
    "unknown-operator": "No operator has this name.",
    "activation": "The activation cannot be fused here.",
    "name": "The text cannot be a name.",
    "unknown-node": "No input, constant or node has this name.",
    "unknown-output": "The node has no output of this name or number.",
    "left-out": "A node reads an optional output that is left out.",
    "unknown-dim": "The graph has no dim of this name.",
    "expression": "An expression over dims cannot be read, has no finite value, or is not whole where it must be.",
    "not-a-value": "Something that is not a value of a graph is given for a tensor.",
    "foreign-value": "The value belongs to another graph.",
    "cycle": "Nodes form a cycle.",
    "unknown-template": "No template has this name.",
    "recursion": "A template uses itself, or templates use one another.",
    "copies": "The copies of a use are too many, or what is given to them does not fit their number.",
    "fixed-dim": "The dim decides how many copies a graph has: only loading its file again can change it.",
    "no-outputs": "The graph has no output.",
    "unknown-rule": "No fusion rule has this name.",
    "fused-graph": "A fused graph cannot be written to a file.",
    # Files.
    "unreadable": "A file is missing or cannot be read.",
    "unwritable": "A file cannot be written.",
    "system": "A call to the operating system failed.",
    "syntax": "The text is not YAML or JSON, or uses YAML features that graph files do not have.",
    "empty-file": "The file is empty.",
    "version": "The file has a format version that this dmlgraph does not read.",
    "array-file": "A file does not hold a readable array.",
    "outside-folder": "A path leads out of the document's folder.",
    "file-name": "A file name does not mean the same on every system.",
    "no-folder": "The document needs other files, but has no folder.",
    "unknown-resource": "The DxDispatch model has no resource of this name.",
    "unsupported": "This part of a DxDispatch or ONNX model cannot be imported.",
    "model": "The file is not an ONNX model, or is damaged.",
    "opset": "The model's opset, or the operator in this opset, is not read.",
    "unknown-value": "An ONNX operator needs numbers that are known only when the model runs.",
    "empty-tensor": "A tensor has no elements. DirectML has no such tensors.",
    "extra": "A package that is needed for this is not installed.",
    "too-many": "There are too many errors; the rest of the document is not checked.",
    "strict": "There are warnings, and --strict counts them as errors.",
    # Runs.
    "missing-input": "The array of an input is missing.",
    "unknown-array": "An array is given for a name that is not an input or output of the graph.",
    "read-only": "An array to write into is read-only.",
    "closed": "The executable is closed.",
    "cancelled": "The run was cancelled.",
    "memory": "There is not enough memory.",
    # Devices.
    "unknown-device": "No device has this name.",
    "adapter": "No adapter can run DirectML, or the requested one does not exist.",
    "native-module": "The native module of dmlgraph cannot be loaded.",
    "library": "DirectML, Direct3D 12 or DXCore is missing, damaged or too old.",
    "install": "DirectML cannot be installed, or does not work.",
    "software-adapter": "The software adapter cannot be used here.",
    "shader": "A shader is damaged, or uses a feature that the software adapter does not have.",
    "refused": "DirectML refuses nodes of the graph.",
    "directml": "A call to DirectML or Direct3D 12 failed.",
    "debug-layer": "The debug layer is not installed, or it is requested too late.",
    "device-removed": "The device is lost with all its resources.",
    "evaluation": "The device could not compute a node.",
}

CODES = WARNINGS | ERRORS
