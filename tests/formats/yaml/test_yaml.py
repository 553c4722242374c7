"""YAML: the meaning of scalars, and the parts of YAML that graph files do not have."""

from __future__ import annotations

import math
import pathlib
import textwrap
from typing import Any

import pytest
from support.problems import raises

import dmlgraph as dg
from dmlgraph.base.report import DocumentReport
from dmlgraph.formats.text_tree.syntax import MAX_DEPTH
from dmlgraph.formats.text_tree.tree import parse, resolve


def problems(text: str) -> list[tuple[int, int, str]]:
    """(line, column, message) of every problem of a document."""
    with pytest.raises(dg.DocumentError) as caught:
        dg.loads(textwrap.dedent(text))
    assert all(problem.location is not None for problem in caught.value.problems)
    return [(each.location.line, each.location.column, each.message) for each in caught.value.problems if each.location]


def tree(text: str) -> Any:
    report = DocumentReport()
    root = parse(text, "file", report)
    assert root is not None
    assert not report.problems
    return root.plain


# Scalars.


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((word, None) for word in ("", "~", "null", "Null", "NULL")),
        *((word, True) for word in ("true", "True", "TRUE")),
        *((word, False) for word in ("false", "False", "FALSE")),
        *((word, math.inf) for word in (".inf", ".Inf", ".INF", "+.inf")),
        *((word, -math.inf) for word in ("-.inf", "-.Inf", "-.INF")),
        ("0", 0),
        ("-12", -12),
        ("+12", 12),
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("18446744073709551615", 2**64 - 1),
        ("1.5", 1.5),
        ("-.5", -0.5),
        ("1.", 1.0),
        ("1e-5", 1e-5),
        ("1E+3", 1000.0),
        ("6.02e23", 6.02e23),
    ],
)
def test_a_plain_scalar_is_what_yaml_1_2_says(text: str, value: Any) -> None:
    found = resolve(text)
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize("text", [".nan", ".NaN", ".NAN"])
def test_nan_is_a_number(text: str) -> None:
    assert math.isnan(resolve(text))


def test_minus_zero_keeps_its_sign() -> None:
    assert math.copysign(1, resolve("-0.0")) == -1


@pytest.mark.parametrize(
    "text",
    [
        *("on", "off", "yes", "no", "y", "n", "On", "YES", "nULL", "tRUE"),
        *(
            "1_000",
            "0b11",
            "-0x10",
            "+0o7",
            "12:30:45",
            "2026-11-21",
            "1e",
            "e5",
            ".",
            "-",
            "+",
            "inf",
            "nan",
            ".iNF",
            "1.5.2",
        ),
        *("1e999", "-1e999", "9" * 5000),
    ],
)
def test_everything_else_is_text(text: str) -> None:
    assert resolve(text) == text


def test_numbers_in_quotes_are_text() -> None:
    assert tree('{a: "1", b: \'2.5\', c: "null"}') == {"a": "1", "b": "2.5", "c": "null"}


@pytest.mark.parametrize(
    ("text", "bits"), [(".inf", 0x7F800000), ("-.inf", 0xFF800000), (".nan", 0x7FC00000), ("-0.0", 0x80000000)]
)
def test_special_numbers_reach_the_fill(text: str, bits: int) -> None:
    g = dg.loads(f"""
dmlgraph: 1
nodes: {{f: {{op: fill_value_constant, output: {{dtype: float32, sizes: [1]}}, value: {text}}}}}
outputs: [f]
""")
    assert g.node("f").operator.value.bits == bits  # type: ignore[union-attr]


# Anchors and aliases.


def test_aliases_stand_for_what_they_name() -> None:
    g = dg.loads("""
dmlgraph: 1
inputs:
  a: &shape {dtype: float32, sizes: &s [2, 3]}
  b: *shape
nodes:
  f: {op: fill_value_constant, output: {dtype: float32, sizes: *s}, value: 2}
  y: {op: add, a: a, b: b}
  z: {op: add, a: y, b: f}
outputs: [z]
""")
    assert g.node("f").operator.output == g.node("a").desc == g.node("b").desc  # type: ignore[union-attr]


def test_what_is_misspelt_in_an_anchor_is_misspelt_wherever_its_aliases_stand() -> None:
    text = "dmlgraph: 1\ninputs: {x: &x {dtype: int8, size: [1]}, y: *x}\noutputs: [x, y]\n"
    assert [message for _, _, message in problems(text)] == ["is not known here"] * 2


def test_a_section_may_stand_for_a_declaration() -> None:
    text = "dmlgraph: 1\nnodes: &n {a: {op: negate, input: b}, size: {op: negate, input: a}}\ninputs: {z: *n}\n"
    messages = [message for _, _, message in problems(f"{text}outputs: [z]\n")]
    assert messages.count("is not known here") == 2


def test_an_alias_inside_its_own_anchor_is_refused() -> None:
    assert (3, 6, "the alias *all is inside its own anchor") in problems("""\
        dmlgraph: 1
        inputs: &all
          x: *all
        outputs: [x]
        """)


def test_an_alias_before_its_anchor_is_refused() -> None:
    found = problems("dmlgraph: 1\nname: *later\ninputs: {x: &later {dtype: int8, sizes: [1]}}\noutputs: [x]\n")
    assert (2, 7, "the alias *later is before its anchor") in found


def test_an_alias_bomb_is_refused_where_it_grows_too_large() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    ((line, _, message),) = problems("dmlgraph: 1\n" + "\n".join(lines))
    assert line == 6
    assert message.startswith("the aliases here expand to more than ")


def test_aliases_do_not_get_round_the_depth_limit() -> None:
    lines = ["a0: &a0 1"] + [f"a{n}: &a{n} [[[[[*a{n - 1}]]]]]" for n in range(1, 2000)]
    ((line, _, message),) = problems("dmlgraph: 1\n" + "\n".join(lines))
    assert message == f"nested more than {MAX_DEPTH} levels deep"
    assert line == 2 + 13  # 12 times 5 levels fit below the file's own


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_deep_nesting_is_refused_where_it_grows_too_deep(opening: str) -> None:
    ((line, column, message),) = problems(
        "dmlgraph: 1\nname: " + ("\n  " if opening == "- " else "") + opening * 100_000
    )
    assert message == f"nested more than {MAX_DEPTH} levels deep"
    assert line == (3 if opening == "- " else 2)
    assert column > MAX_DEPTH


def test_nesting_up_to_the_limit_is_only_wrong_for_what_it_is() -> None:
    depth = MAX_DEPTH - 1
    found = problems(f"dmlgraph: 1\nname: {'[' * depth}{']' * depth}\noutputs: []")
    assert [message for _, _, message in found] == ["is not a name", "must name at least one output"]


# Parts of YAML that graph files do not have.


@pytest.mark.parametrize(
    "tag",
    [
        "!!python/object/apply:os.system",
        "!!python/name:os.system",
        "!!python/object:builtins.eval",
        "!!float",
        "!!str",
        "!custom",
        "!!binary",
    ],
)
def test_a_tag_is_refused_and_nothing_is_made_of_it(tag: str, tmp_path: pathlib.Path) -> None:
    marker = tmp_path / "marker"
    text = f"dmlgraph: 1\ninputs: {{x: {{dtype: int8, sizes: [1]}}}}\nname: {tag} ['touch {marker}']\noutputs: [x]\n"
    if tag in ("!!float", "!!str", "!!binary"):
        text = text.replace(f"['touch {marker}']", "'1.0'")
    assert (3, 7, f"the tag {tag} is not allowed: a graph file holds plain values only") in problems(text)
    assert not marker.exists()


def test_a_second_document_is_refused() -> None:
    text = "dmlgraph: 1\ninputs: {x: {dtype: int8, sizes: [1]}}\noutputs: [x]\n---\ndmlgraph: 1\n"
    assert problems(text) == [(4, 1, "a graph file holds one document; this '---' starts another")]


def test_one_document_may_be_marked_as_such() -> None:
    assert dg.loads("%YAML 1.2\n---\ndmlgraph: 1\ninputs: {x: {dtype: int8, sizes: [1]}}\noutputs: [x]\n...\n").outputs


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("dmlgraph: 1\ninputs:\n\tx: 1\n", (3, 1)),
        ("dmlgraph: 1\ninputs: {x: [\n", (2, 13)),
        ("dmlgraph: 1\nname: a: b\n", (2, 7)),
        ("dmlgraph: 1\nname: 'open\n", (2, 7)),
        ("dmlgraph: 1\n  name: x\n", (2, 3)),
        ("dmlgraph: 1\nname: @x\n", (2, 7)),
        ("dmlgraph: 1\nname: a\x07b\n", (2, 8)),
        ("dmlgraph: 1\nname: \ud800\n", (2, 7)),
        ("dmlgraph: 1\nname: é\0\n", (2, 8)),
    ],
)
def test_what_is_not_yaml_is_refused_at_its_place(text: str, place: tuple[int, int]) -> None:
    ((line, column, message),) = problems(text)
    assert (line, column) == place
    assert message.startswith("not YAML: ")


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n"])
def test_an_empty_file_says_so(text: str) -> None:
    assert problems(text) == [(1, 1, "the file is empty")]


@pytest.mark.parametrize("text", ["[1, 2]", "text", "3", "null"])
def test_a_file_that_is_no_mapping_says_what_it_is_made_of(text: str) -> None:
    assert problems(text) == [(1, 1, "a graph file is a mapping")]


def test_keys_are_text_and_given_once() -> None:
    assert problems("""\
        dmlgraph: 1
        dmlgraph: 1
        name: a
        ? [complex]
        : 1
        3: 4
        inputs: {x: {dtype: int8, sizes: [1], dtype: int16}}
        outputs: [x]
        """) == [
        (2, 1, "the key 'dmlgraph' is given twice"),
        (4, 3, "a key must be text"),
        (6, 1, "a key must be text"),
        (7, 39, "the key 'dtype' is given twice"),
    ]


def test_columns_count_characters() -> None:
    found = problems("dmlgraph: 1\ninputs: {'入力🙂': {dtype: int9, sizes: [1]}}\noutputs: []\n")
    assert found[0][:2] == (2, 25)


# Files.


def test_a_file_may_begin_with_a_byte_order_mark_and_have_windows_line_ends(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "g.yaml"
    path.write_bytes(b"\xef\xbb\xbfdmlgraph: 1\r\ninputs: {x: {dtype: int8, sizes: [1]}}\r\noutputs: [x, z]\r\n")
    with pytest.raises(dg.DocumentError) as caught:
        dg.load(path)
    assert str(caught.value.location) == f"{path}:3:14"


@pytest.mark.parametrize(
    ("content", "said", "place"),
    [
        ("dmlgraph: 1\nname: größe\n".encode("cp1252"), "byte 0xf6 at 20, which is 'ö' in Windows-1252", (2, 9)),
        (b"dmlgraph: 1\r\n\x80: 1", "byte 0x80 at 13, which is '\u20ac' in Windows-1252", (2, 1)),
        (b"dmlgraph: 1\nname: \xff\0\n", "byte 0xff at 18", (1, 1)),
        (b"dmlgraph: \x81\n", "byte 0x81 at 10", (1, 1)),
        *(("dmlgraph: 1\n".encode(name), "not UTF-8 text, but UTF-16", (1, 1)) for name in ("utf-16", "utf-16-be")),
        ("dmlgraph: 1\n".encode("utf-16-le"), "not UTF-8 text, but UTF-16LE", (1, 1)),
        ("dmlgraph: 1\n".encode("utf-32"), "not UTF-8 text, but UTF-32", (1, 1)),
    ],
)
def test_a_file_that_is_not_utf_8_says_what_it_is(
    content: bytes, said: str, place: tuple[int, int], tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "g.yaml"
    path.write_bytes(content)
    with pytest.raises(dg.DocumentError, match="not UTF-8 text") as caught:
        dg.load(path)
    assert said in str(caught.value)
    assert caught.value.location == dg.Location(str(path), *place)
    assert ("save it as UTF-8" in str(caught.value)) is ("Windows" in said or "but UTF" in said)


def test_a_missing_file_and_a_folder_say_so(tmp_path: pathlib.Path) -> None:
    with raises(dg.DocumentError, "unreadable") as caught:
        dg.load(tmp_path / "none.yaml")
    assert caught.value.location == dg.Location(str(tmp_path / "none.yaml"), 1, 1)
    with raises(dg.DocumentError, "unreadable"):
        dg.load(tmp_path)
