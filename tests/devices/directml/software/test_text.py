"""The text that LLVM prints, prepared for a CPU: what each release of LLVM adds to an instruction is removed."""

from __future__ import annotations

import re

import llvmlite
import pytest

from dmlgraph.devices.directml.software import llvm
from dmlgraph.devices.directml.software.text import ENTRY, clean, is_dropped, with_names

# Every flag and annotation of a release, as it prints them, and the text that must remain.  A new release of LLVM
# needs another table: see its language reference for new flags of instructions.
_SINCE_15 = [
    ("%r = add nuw nsw i32 %i, %j", "%r = add i32 %i, %j"),
    ("%r = udiv exact i32 %i, %j", "%r = udiv i32 %i, %j"),
    ("%r = fadd fast float %x, %y", "%r = fadd float %x, %y"),
    (
        "%r = fmul reassoc nnan ninf nsz arcp contract afn float %x, %y",
        "%r = fmul float %x, %y",
    ),
    ("%r = fcmp nnan ninf olt float %x, %y", "%r = fcmp olt float %x, %y"),
    ("%r = select nnan i1 %c, float %x, float %y", "%r = select i1 %c, float %x, float %y"),
    ("%r = tail call fast float @f(float %x)", "%r = tail call float @f(float %x)"),
    ("%r = getelementptr inbounds i32, ptr %p, i32 %i", "%r = getelementptr i32, ptr %p, i32 %i"),
    ("%r = load i32, ptr %p, align 4, !range !0", "%r = load i32, ptr %p"),
    ("store i32 %i, ptr %p, align 4, !nontemporal !1", "store i32 %i, ptr %p"),
    ("%r = load i32, ptr addrspace(3) %s, align 4", "%r = load i32, ptr %s"),
    ("%r = addrspacecast ptr addrspace(3) %s to ptr", "%r = bitcast ptr %s to ptr"),
]
_SINCE_20 = [
    *_SINCE_15,
    ("%r = or disjoint i32 %i, %j", "%r = or i32 %i, %j"),
    ("%r = zext nneg i32 %i to i64", "%r = zext i32 %i to i64"),
    ("%r = uitofp nneg i32 %i to float", "%r = uitofp i32 %i to float"),
    ("%r = trunc nuw nsw i32 %i to i16", "%r = trunc i32 %i to i16"),
    ("%r = icmp samesign ult i32 %i, %j", "%r = icmp ult i32 %i, %j"),
    ("%r = fptrunc fast double %d to float", "%r = fptrunc double %d to float"),
    ("%r = fpext nnan float %x to double", "%r = fpext float %x to double"),
    ("%r = getelementptr inbounds nuw i32, ptr %p, i32 %i", "%r = getelementptr i32, ptr %p, i32 %i"),
    ("%r = getelementptr nusw i32, ptr %p, i32 %i", "%r = getelementptr i32, ptr %p, i32 %i"),
]
INSTRUCTIONS = {15: _SINCE_15, 20: _SINCE_20, 22: _SINCE_20}  # by LLVM's release
MODULE = """
declare float @f(float)
define void @kernel(i32 %i, i32 %j, float %x, float %y, double %d, i1 %c, ptr %p, ptr addrspace(3) %s) #0 {{
entry:
  {instruction}
  ret void
}}
attributes #0 = {{ nounwind }}
!0 = !{{i32 0, i32 7}}
!1 = !{{i32 1}}
"""


def major() -> int:
    return int(llvm.binding().llvm_version_info[0])


def test_this_release_is_known() -> None:
    assert major() in INSTRUCTIONS, f"text.py and this test have not been read again for LLVM {major()}"
    assert llvm.lacking() is None


@pytest.mark.parametrize(("instruction", "left"), INSTRUCTIONS.get(major(), []))
def test_flags_and_annotations_go(instruction: str, left: str) -> None:
    """LLVM itself prints them, and accepts the text that remains."""
    printed = str(llvm.binding().parse_assembly(MODULE.format(instruction=instruction), llvm.context()))
    kept = [clean(line) for line in printed.splitlines() if not is_dropped(line)]
    (cleaned,) = [line.strip() for line in kept if line.startswith("  ") and "ret void" not in line]
    assert cleaned == left
    again = MODULE.format(instruction=cleaned).replace("ptr addrspace(3) %s", "ptr %s")
    llvm.binding().parse_assembly(again, llvm.context()).verify()


NUMBERED = """
%0 = type { i32, i32 }
define void @kernel(%0 %pair, ptr %p) {
  %1 = extractvalue %0 %pair, 0
  %2 = add i32 %1, 1
  %3 = add i32 %1, 2
  br label %4
4:
  %5 = phi i32 [ %3, %0 ], [ %6, %4 ]
  %6 = add i32 %5, 1
  store i32 %6, ptr %p
  br label %4
}
"""


def test_instructions_may_go_since_values_and_blocks_have_names() -> None:
    """Of a block of numbers LLVM prints no label where it is the first, and needs no name for it."""
    printed = with_names(str(llvm.binding().parse_assembly(NUMBERED, llvm.context())))
    assert not re.search(r"%\d|^\d", printed, re.MULTILINE)
    fewer = re.sub(r"  %sw\.2 = .*\n", "", printed).replace(" {\n", f" {{\n{ENTRY}:\n", 1)
    assert len(fewer.splitlines()) == len(printed.splitlines())
    llvm.binding().parse_assembly(fewer, llvm.context()).verify()


@pytest.mark.parametrize("release", ["0.43.0", "0.51.0rc1", "1.0"])
def test_another_release_is_refused(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvmlite, "__version__", release)
    error = llvm.lacking()
    assert error is not None
    assert release in str(error)
    assert llvm.requirement() in str(error)
