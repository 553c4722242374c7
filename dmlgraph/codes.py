"""The codes of problems: each kind of problem has one, and here stands what it means.

A code stays as it is when a message is put into better words: programs go by it.  docs/errors.md is made from this.
"""

from __future__ import annotations

# Legal, but surely not meant: told, and raised by nobody.  A graph can allow them.
WARNINGS = {
    "unused-dim": "Nothing is sized by a dim.",
    "unused-node": "A node is computed for nothing: no output depends on it.",
    "unused-input": "An input is never read.",
    "unused-constant": "A constant is never read.",
    "sequence-range": "A sequence leaves the range of its data type.",
    "sequence-inexact": "A sequence of whole numbers stops being exact.",
}

ERRORS = {
    # Fields, of any kind.
    "missing": "A field, a section or a tensor that must be given is missing.",
    "unknown-field": "There is no field, key or argument of this name here.",
    "unknown-name": "The word is not one of those that the field takes.",
    "unknown-code": "There is no warning of this code.",
    "kind": "The value is of another kind than the field takes: text for a number, one value for a list.",
    "range": "A number is outside the range that is allowed.",
    "count": "A list has too many or too few entries.",
    "does-not-fit": "The data type cannot hold the number.",
    "conflict": "Two fields contradict each other, or cannot be given together.",
    "duplicate": "A name, a key or an entry is given twice.",
    "undetermined": "Nothing says what a field, a data type or the sizes of an output are.",
    # Tensors.
    "dtype": "A tensor has another data type than it must have.",
    "unknown-dtype": "DirectML has no such data type.",
    "rank": "A tensor has too many or too few dimensions.",
    "sizes": "The sizes of tensors do not fit one another, or do not fit the operator.",
    "strides": "Strides do not fit the sizes, or reach too far.",
    "too-large": "A tensor or a buffer is larger than DirectML can address.",
    "shared-memory": "Elements that are written share memory.",
    "masked": "The array is a masked array. No tensor has a mask.",
    "owned": "The operator does not take this tensor from memory that DirectML owns.",
    # Operators and graphs.
    "level": "The operator, data type or field needs a higher feature level.",
    "unknown-level": "DirectML has no feature level of this number.",
    "unknown-operator": "There is no operator of this name.",
    "activation": "The activation cannot be fused here.",
    "name": "The text cannot be a name.",
    "unknown-node": "There is no input, constant or node of this name.",
    "unknown-output": "The node has no output of this name or number.",
    "left-out": "An optional output is read that is left out.",
    "unknown-dim": "The graph has no dim of this name.",
    "not-a-value": "A tensor is given something that is not a value of a graph.",
    "foreign-value": "The value belongs to another graph.",
    "cycle": "Nodes read one another in a circle.",
    "no-outputs": "There is no output.",
    "unknown-rule": "There is no fusion rule of this name.",
    "fused-graph": "A fused graph cannot be written to a file.",
    # Files.
    "unreadable": "A file is missing or cannot be read.",
    "unwritable": "A file cannot be written.",
    "system": "A call of the operating system failed.",
    "syntax": "The text is not YAML or JSON, or uses what graph files do not have.",
    "empty-file": "The file is empty.",
    "version": "The file has a format version that this dmlgraph does not read.",
    "array-file": "A file does not hold an array that can be read.",
    "outside-folder": "A path leads out of the document's folder.",
    "no-folder": "Files are named or needed, and the document has no folder for them.",
    "unknown-resource": "The DxDispatch model has no resource of this name.",
    "unsupported": "This part of a DxDispatch model cannot be imported.",
    "too-many": "There are so many errors that the rest is not looked for.",
    "strict": "There are warnings, and --strict counts them as errors.",
    # Runs.
    "missing-input": "The array of an input is missing.",
    "unknown-array": "An array is given for what is not an input or output of the graph.",
    "read-only": "An array to write into is read-only.",
    "closed": "The executable is closed.",
    "cancelled": "The run was given up.",
    "memory": "There is not enough memory.",
    # Devices.
    "unknown-device": "There is no device of this name.",
    "adapter": "There is no adapter that can run DirectML, or not the one that was asked for.",
    "native-module": "The native module of dmlgraph cannot be loaded.",
    "library": "DirectML, Direct3D 12 or DXCore is missing, damaged or too old.",
    "install": "DirectML cannot be installed, or does not work.",
    "software-adapter": "The software adapter cannot be used here.",
    "shader": "A shader is damaged, or uses what the software adapter does not have.",
    "refused": "DirectML refuses nodes of the graph.",
    "directml": "A call of DirectML or Direct3D 12 failed.",
    "debug-layer": "The debug layer is not installed.",
    "device-removed": "The device is lost with all that it held.",
    "evaluation": "The device could not compute a node.",
}

CODES = WARNINGS | ERRORS
