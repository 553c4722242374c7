"""What a file holds, by its content: files are often not what their names say.

Graph files are text and ONNX models are protocol buffers, which have no mark of their own; most others have one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import re
from typing import BinaryIO

from dmlgraph.base.errors import DocumentError, Location

_HEAD = 4096  # bytes that are looked at


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """What a file holds.

    Attributes:
        what: a phrase.
        hint: what to do with it.
        is_model: whether it is an ONNX model.
    """

    what: str
    hint: str | None = None
    is_model: bool = False


_EXPORT = "export it to ONNX from where it was made"
_UNPACK = "unpack it"
_MODEL = Kind("an ONNX model", "give its file: dmlgraph.load and the commands read it", is_model=True)
_ZIP = b"PK\3\4"
# A mark, where it begins, and what it means.
_MARKS = [
    (b"version https://git-lfs", 0, Kind("a pointer of Git LFS, not the file itself", "'git lfs pull' fetches it")),
    (b"GGUF", 0, Kind("a GGUF model", _EXPORT)),
    (b"TFL3", 4, Kind("a TensorFlow Lite model", "convert it to ONNX, for example with tf2onnx")),
    (b"ORTM", 4, Kind("a model in ONNX Runtime's own format", "use the .onnx file that it was made from")),
    (b"\x89HDF\r\n", 0, Kind("an HDF5 file, as Keras writes", _EXPORT)),
    (b"\x93NUMPY", 0, Kind("an array of NumPy", "a graph file names it as the 'file' of a constant")),
    (b"\x1f\x8b", 0, Kind("a gzip archive", _UNPACK)),
    (b"1AY&SY", 4, Kind("a bzip2 archive", _UNPACK)),
    (b"\xfd7zXZ\0", 0, Kind("an xz archive", _UNPACK)),
    (b"\x28\xb5\x2f\xfd", 0, Kind("a zstd archive", _UNPACK)),
    (b"7z\xbc\xaf\x27\x1c", 0, Kind("a 7z archive", _UNPACK)),
    (b"ustar", 257, Kind("a tar archive", _UNPACK)),
    *((bytes([128, each]), 0, Kind("a Python pickle, as PyTorch writes", _EXPORT)) for each in range(2, 6)),
]
# The same for text, in whatever case and behind spaces.
_TEXTS = [
    (rb"<!doctype html|<html", Kind("a web page", "download the file itself")),
    (rb"<\?xml", Kind("XML, as OpenVINO writes", _EXPORT)),
    (rb"<\s*ir_version\s*:", Kind("an ONNX model in ONNX's text syntax", "onnx.parser.parse_model reads it")),
    (rb"ir_version\s*:", Kind("an ONNX model as text", "google.protobuf.text_format reads it")),
    (rb'\{\s*"irversion"\s*:', Kind("an ONNX model as JSON", "google.protobuf.json_format reads it")),
]
# Text that only its name tells.
_SOURCES = {
    ".py": Kind("a Python program", "'python FILE' runs it; Graph.save writes the graph that it builds as a file"),
    ".ipynb": Kind("a notebook", "run it; Graph.save writes the graph that it builds as a file"),
}
_BINARY = re.compile(rb"[\0-\x08\x0e-\x1f]")  # what text does not have
_SAFETENSORS = Kind("a safetensors file, which has no graph", "a graph file names it as the 'file' of constants")
_TENSOR = Kind("an ONNX tensor, not a model")
_OTHER = Kind("a protocol buffer of another kind, as TensorFlow and Core ML write", _EXPORT)

# How protobuf encodes the fields of a message, by number: 0 a number, 2 something with a length, 1 and 5 bits.
_MODEL_FIELDS = {1: 0, 5: 0, **dict.fromkeys((2, 3, 4, 6, 7, 8, 14, 20, 25, 26), 2)}
_GRAPH = 7
_MOST_FIELDS = 10_000  # that are looked at
_LONGEST_TAG = 20  # bytes of a field before its content


def kind_of(file: BinaryIO) -> Kind | None:
    """What a file holds, if it is recognized; None for text and what is not.  The file is left at its beginning."""
    try:
        head = file.read(_HEAD)
        return _marked(head, file) or _in_text(head) or (_buffer(file) if _BINARY.search(head[:64]) else None)
    finally:
        file.seek(0)


def kind_of_bytes(data: bytes) -> Kind | None:
    """What the bytes of a file hold, as `kind_of` says."""
    return kind_of(io.BytesIO(data))


def kind_of_source(file: str, data: bytes) -> Kind | None:
    """What a file of text is by its name, if that is the name of another language and it is not a graph file."""
    kind = _SOURCES.get(os.path.splitext(file)[1].lower())
    return None if re.search(rb"^dmlgraph\s*:", data, re.MULTILINE) else kind


def other_kind(kind: Kind, file: str, allowed: str) -> DocumentError:
    """The error for a file that holds something else; `file` names it."""
    place = Location(file, 1, 1)
    return DocumentError(f"the file is {kind.what}", code="file-kind", location=place, allowed=allowed, hint=kind.hint)


def _marked(head: bytes, file: BinaryIO) -> Kind | None:
    if head.startswith(_ZIP):
        return _zipped(file)
    if head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") <= file.seek(0, os.SEEK_END) - 8:
        return _SAFETENSORS
    return next((kind for mark, at, kind in _MARKS if head.startswith(mark, at)), None)


def _zipped(file: BinaryIO) -> Kind:
    import zipfile

    with contextlib.suppress(zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        names = zipfile.ZipFile(file).namelist()
        if any(name.endswith("data.pkl") for name in names):
            return Kind("a file of PyTorch", "torch.onnx.export writes an ONNX model")
        if any(name.endswith(".npy") for name in names):
            return Kind("an .npz archive of NumPy arrays")
        if any(name.endswith((".keras", "config.json")) for name in names):
            return Kind("a model of Keras", _EXPORT)
    return Kind("a zip archive", _UNPACK)


def _in_text(head: bytes) -> Kind | None:
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    return next((kind for form, kind in _TEXTS if re.match(form, text)), None)


def _buffer(file: BinaryIO) -> Kind | None:
    """What a protocol buffer is, by its first fields; an ONNX model has those of one up to its graph."""
    size = file.seek(0, os.SEEK_END)
    at, seen = 0, dict[int, int]()
    for _ in range(_MOST_FIELDS):
        file.seek(at)
        found = _field(file.read(_LONGEST_TAG))
        if found is None:
            return None
        number, encoding, length = found
        seen.setdefault(number, encoding)
        if number == _GRAPH and all(form == _MODEL_FIELDS.get(each, form) for each, form in seen.items()):
            return _MODEL
        at += length
        if at >= size:
            break
    if at > size:
        return None
    is_tensor = seen.get(2) == 0 and seen.get(1, 0) in (0, 2) and seen.keys() <= set(range(1, 17))
    return _TENSOR if is_tensor else _OTHER


def _field(data: bytes) -> tuple[int, int, int] | None:
    """The number and encoding of the field that begins here, and its length; None where no field begins."""
    tag = _varint(data, 0)
    if tag is None or tag[0] >> 3 == 0:
        return None
    number, encoding, at = tag[0] >> 3, tag[0] & 7, tag[1]
    value = _varint(data, at)
    if encoding in (1, 5):
        return number, encoding, at + (8 if encoding == 1 else 4)
    if value is None or encoding not in (0, 2):
        return None
    return number, encoding, value[1] + (value[0] if encoding == 2 else 0)


def _varint(data: bytes, at: int) -> tuple[int, int] | None:
    """A number, and the place behind it."""
    number = 0
    for place in range(at, min(at + 10, len(data))):
        number |= (data[place] & 127) << 7 * (place - at)
        if data[place] < 128:
            return number, place + 1
    return None
