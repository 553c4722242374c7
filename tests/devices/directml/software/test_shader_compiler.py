"""Describing and compiling: what a shader declares, what is refused and how, and what is cached."""

# ruff: noqa: E501  (LLVM takes an instruction on one line)

from __future__ import annotations

import concurrent.futures
import gc
import os
import stat
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest
from support.problems import raises
from support.software import dxil
from support.software.dxil import CBV, SRV, STRUCTURED, TYPED, UAV, Range

from dmlgraph.devices.directml.software import cache, codegen
from dmlgraph.devices.directml.software.compiler import Compiler
from dmlgraph.devices.directml.software.container import read_module
from dmlgraph.devices.directml.software.errors import ShaderError
from dmlgraph.devices.directml.software.metadata import describe
from dmlgraph.devices.directml.software.translate import Translation

ADD_ONE = """
    %id = call i32 @dx.op.threadId.i32(i32 93, i32 0)
    %l = call %dx.types.ResRet.i32 @dx.op.bufferLoad.i32(i32 68, %dx.types.Handle %h0, i32 %id, i32 undef)
    %x = extractvalue %dx.types.ResRet.i32 %l, 0
    %y = add i32 %x, 1
    call void @dx.op.bufferStore.i32(i32 69, %dx.types.Handle %h1, i32 %id, i32 undef, i32 %y, i32 %y, i32 %y, i32 %y, i8 15)
    ret void"""


def add_one(threads: int = 8) -> bytes:
    return dxil.shader(ADD_ONE, [Range(SRV, TYPED), Range(UAV, TYPED)], (threads, 1, 1))


def works(kernel) -> bool:
    source, out = np.arange(8, dtype=np.uint32), np.zeros(8, np.uint32)
    dxil.run(kernel, [dxil.view(source), dxil.view(out)])
    return out.tolist() == list(range(1, 9))


# ---- Describing ----


def test_what_a_shader_declares():
    ranges = [Range(SRV, TYPED), Range(SRV, STRUCTURED, 24, lower=3, count=2), Range(UAV), Range(CBV, size=112)]
    description = Compiler().describe(dxil.shader("ret void", ranges, (8, 4, 2))).description
    assert description.threads == (8, 4, 2)
    found = [(r.resource_class, r.id, r.space, r.lower, r.count, r.shape, r.stride) for r in description.ranges]
    assert found == [
        (0, 0, 0, 0, 1, 10, 0),
        (0, 1, 0, 3, 2, 12, 24),
        (1, 0, 0, 0, 1, 11, 0),
        (2, 0, 0, 0, 1, 13, 0),
    ]
    assert description.ranges[3].size == 112


def test_an_unbounded_range():
    code = dxil.shader("ret void", [Range(SRV, count=-1)])
    assert Compiler().describe(code).description.ranges[0].count == 0xFFFFFFFF


def test_operations_that_are_not_supported_are_all_named():
    body = """
        %a = call i32 @dx.op.waveGetLaneIndex(i32 111)
        %b = call i32 @dx.op.waveActiveOp.i32(i32 119, i32 %a, i8 0, i8 0)
        ret void"""
    with pytest.raises(ShaderError) as error:
        Compiler().describe(dxil.shader(body))
    assert str(error.value) == (
        "dx.op.waveGetLaneIndex (opcode 111), dx.op.waveActiveOp (opcode 119) are not supported"
    )


REFUSED = {
    "dx.op.bufferUpdateCounter (opcode 70) is not supported": (
        "%c = call i32 @dx.op.bufferUpdateCounter(i32 70, %dx.types.Handle %h0, i8 1)\nret void",
        [Range(UAV)],
    ),
    "uses a texture; only buffers": (
        "%l = call %dx.types.ResRet.i32 @dx.op.bufferLoad.i32(i32 68, %dx.types.Handle %h0, i32 0, i32 0)\nret void",
        [Range(SRV, 2)],
    ),
    "arrays of constant buffers": ("ret void", [Range(CBV, size=16, count=4)]),
    "must be a constant": (
        "%i = call i32 @dx.op.flattenedThreadIdInGroup.i32(i32 96)\n"
        "%t = call i32 @dx.op.threadId.i32(i32 93, i32 %i)\nret void",
        [Range(UAV)],
    ),
    "does not declare": (
        "%v = call %dx.types.Handle @dx.op.createHandle(i32 57, i8 0, i32 7, i32 0, i1 false)\nret void",
        [Range(UAV)],
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused_says_why(message):
    body, ranges = REFUSED[message]
    with pytest.raises(ShaderError) as error:
        Compiler().describe(dxil.shader(body, ranges))
    assert message in str(error.value)


def test_shaders_of_other_stages_are_refused():
    with raises(ShaderError, "shader", got="ps"):
        Compiler().describe(dxil.shader("ret void", model="ps"))


MALFORMED = """
define void @main() {
  ret void
}
!dx.resources = !{!0}
!dx.entryPoints = !{!3}
!0 = !{null, !1, null, null}
!1 = !{!2}
!2 = !{i32 0, ptr undef}
!3 = !{ptr @main, !"main", null, !0, !4}
!4 = !{i32 4, !5}
!5 = !{i32 8, i32 1, i32 1}
"""


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda code: b"", "not a DXBC container"),
        (lambda code: b"MZ" + code[2:], "not a DXBC container"),
        (lambda code: code[:34], "truncated"),
        (lambda code: code[:50], "truncated"),
        (lambda code: code.replace(b"DXIL", b"SHEX", 1), "no DXIL part"),
        (lambda code: code[:-40], "does not hold LLVM bitcode"),
        (lambda code: code.replace(b"BC\xc0\xde", b"XXXX"), "does not hold LLVM bitcode"),
        (lambda code: dxil.wrap(b"BC\xc0\xde" + bytes(400)), "damaged"),
        (lambda code: dxil.pack(MALFORMED), "metadata is not valid DXIL"),
        (lambda code: dxil.pack("define void @main() {\n ret void\n}"), "no entry point"),
    ],
)
def test_damaged_containers_are_refused(damage, message):
    with pytest.raises(ShaderError, match=message):
        Compiler().describe(damage(add_one()))


def test_describing_is_done_once():
    lines = [f"%a{i} = add i32 {i}, {i}" for i in range(2000)]
    code = dxil.shader("\n".join([*lines, "ret void"]))
    compiler = Compiler()
    first = compiler.describe(code)
    assert compiler.describe(bytes(code)) is first
    assert compiler.statistics.snapshot()["shaders_described"] == 1


def test_the_wrong_number_of_formats_is_refused():
    with pytest.raises(ShaderError, match="2 ranges, not 3"):
        Compiler().compile(add_one(), (0, 0, 0))


# ---- Compiling ----


def test_each_set_of_formats_has_code_of_its_own():
    compiler = Compiler()
    words, bytes_ = compiler.compile(add_one(), (42, 42)), compiler.compile(add_one(), (62, 62))
    assert compiler.compile(add_one(), (42, 42)) is words
    assert words.address != bytes_.address
    source, out = np.array([255, 1], np.uint8), np.zeros(2, np.uint8)
    dxil.run(bytes_, [dxil.view(source), dxil.view(out)])
    np.testing.assert_array_equal(out, [255, 2])
    assert works(words)
    assert compiler.statistics.snapshot()["kernels_compiled"] == 2


def test_formats_of_buffers_without_one_make_no_difference():
    compiler = Compiler()
    code = dxil.shader("ret void", [Range(UAV)])
    assert compiler.compile(code, (0,)) is compiler.compile(code, (41,))


def test_many_threads_compile_a_shader_once():
    compiler = Compiler()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        kernels = list(pool.map(lambda i: compiler.compile(add_one(8 + i % 2), (42, 42)), range(16)))
    assert len({kernel.address for kernel in kernels}) == 2
    assert compiler.statistics.snapshot()["kernels_compiled"] == 2


def test_an_error_is_told_to_every_thread_that_asks():
    compiler = Compiler()
    for _ in range(2):
        with pytest.raises(ShaderError, match="DXGI format 999"):
            compiler.compile(add_one(), (999, 42))


def test_kernels_that_nobody_keeps_are_freed():
    """The garbage collector frees compilers, and the code that they keep, in any order."""
    for number in range(30):
        compiler: Any = Compiler()
        compiler.myself = compiler  # a cycle
        assert works(compiler.compile(add_one(8 + number % 3), (42, 42)))
    del compiler
    gc.collect()


# ---- On disk ----


def counted(compiler: Compiler) -> tuple[int, int]:
    counts = compiler.statistics.snapshot()
    return counts["kernels_compiled"], counts["kernels_loaded"]


def test_the_second_compiler_loads_what_the_first_compiled(cache_folder):
    first, second = Compiler(), Compiler()
    assert works(first.compile(add_one(), (42, 42)))
    assert works(second.compile(add_one(), (42, 42)))
    assert (counted(first), counted(second)) == ((1, 0), (0, 1))
    assert len(list(cache.folder().iterdir())) == 1
    modes = {stat.S_IMODE(path.stat().st_mode) for path in [cache_folder, *cache_folder.rglob("*")]}
    assert modes == {0o700, 0o600}


def test_comments_make_no_other_version_of_the_compiler():
    def version(source: str) -> str:
        return cache.essence(compile(source, "a.py", "exec"))

    source = "def f(x):\n    return 'a' if x in {1, 2} else g(x)\n"
    assert version(source) == version(f"# a comment\n\n{source}")
    for change in (("'a'", "'b'"), ("g(x)", "h(x)"), ("2", "3"), ("in", "not in")):
        assert version(source) != version(source.replace(*change))
    assert len(cache.compiler_version()) == 12


def test_a_second_process_compiles_nothing():
    script = textwrap.dedent(f"""
        import sys
        sys.path[:0] = {sys.path!r}
        from devices.directml.software import test_shader_compiler as tests
        compiler = tests.Compiler()
        assert tests.works(compiler.compile(tests.add_one(), (42, 42)))
        print(*tests.counted(compiler))
    """)
    outputs = [
        subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    ]
    assert outputs == [["1", "0"], ["0", "1"]]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:10],
        lambda data: data[:-1],
        lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:],
        lambda data: os.urandom(len(data)),
    ],
    ids=["empty", "magic only", "truncated", "one bit", "noise"],
)
def test_a_damaged_file_is_compiled_again_and_replaced(damage):
    Compiler().compile(add_one(), (42, 42))
    (file,) = cache.folder().iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    again = Compiler()
    assert works(again.compile(add_one(), (42, 42)))
    assert counted(again) == (1, 0)
    after = Compiler()
    assert works(after.compile(add_one(), (42, 42)))
    assert counted(after) == (0, 1)


def test_code_of_another_kernel_is_not_taken_for_this_one():
    """The file's name is not enough: its content says which kernel it is."""
    Compiler().compile(add_one(), (42, 42))
    (file,) = cache.folder().iterdir()
    Compiler().compile(add_one(), (62, 62))
    (other,) = set(cache.folder().iterdir()) - {file}
    file.write_bytes(other.read_bytes())
    again = Compiler()
    assert works(again.compile(add_one(), (42, 42)))
    assert counted(again) == (1, 0)


def test_a_file_that_somebody_made_up_is_not_loaded():
    """Its digest is right, but it is not an object file, and LLVM would end the process."""
    Compiler().compile(add_one(), (42, 42))
    (file,) = cache.folder().iterdir()
    for secret in (b"", bytes(32)):
        junk = b"\x7fELF" + bytes(200)
        file.write_bytes(cache._header(secret, file.name, junk) + junk)
        again = Compiler()
        assert works(again.compile(add_one(), (42, 42)))
        assert counted(again) == (1, 0)


def test_a_damaged_secret_is_made_anew():
    Compiler().compile(add_one(), (42, 42))
    (cache.folder().parent / "secret").write_bytes(b"short")
    compilers = [Compiler() for _ in range(3)]
    assert all(works(each.compile(add_one(), (42, 42))) for each in compilers)
    assert [counted(each) for each in compilers] == [(1, 0), (0, 1), (0, 1)]


@pytest.mark.parametrize("make", [getattr(os, "mkfifo", None), os.mkdir], ids=["a named pipe", "a folder"])
def test_something_else_in_the_place_of_a_file(make):
    Compiler().compile(add_one(), (42, 42))
    (file,) = cache.folder().iterdir()
    file.unlink()
    make(file)
    again = Compiler()
    assert works(again.compile(add_one(), (42, 42)))
    assert counted(again) == (1, 0)


def test_what_others_may_write_is_not_loaded(cache_folder):
    def compiled() -> tuple[int, int]:
        compiler = Compiler()
        assert works(compiler.compile(add_one(), (42, 42)))
        return counted(compiler)

    compiled()
    (file,) = cache.folder().iterdir()
    file.chmod(0o622)
    assert (compiled(), compiled()) == ((1, 0), (0, 1))  # replaced with a file that only the user may write
    cache_folder.parent.chmod(0o777)
    assert (compiled(), compiled()) == ((1, 0), (1, 0))
    cache_folder.parent.chmod(0o1777)
    assert compiled() == (0, 1)


def test_folders_that_are_too_open_are_closed(cache_folder):
    Compiler().compile(add_one(), (42, 42))
    folders = [cache_folder, cache.folder().parent, cache.folder()]
    for folder in folders:
        folder.chmod(0o777)
    again = Compiler()
    assert works(again.compile(add_one(), (42, 42)))
    assert counted(again) == (0, 1)
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in folders] == [0o700] * 3


def test_many_writers_at_once():
    """Independent compilers write the same file, and all get working code."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        kernels = list(pool.map(lambda _: Compiler().compile(add_one(), (42, 42)), range(8)))
    assert all(map(works, kernels))
    assert len(list(cache.folder().iterdir())) == 1


def test_without_a_folder_to_write_to_everything_works(cache_folder):
    cache_folder.write_text("a file, not a folder", encoding="utf-8")
    compiler = Compiler()
    assert works(compiler.compile(add_one(), (42, 42)))
    assert counted(compiler) == (1, 0)


def test_the_folder_follows_the_platform(monkeypatch, tmp_path):
    monkeypatch.delenv("DMLGRAPH_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert tmp_path / "dmlgraph" / "kernels" == cache.folder().parent
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert tmp_path / "home" / ".cache" / "dmlgraph" / "kernels" == cache.folder().parent


# ---- Time ----


def long_shader(statements: int, barriers: int) -> bytes:
    """A shader of many loads, divisions and stores, which costs LLVM as much as DirectML's largest ones."""
    lines = ["%id = call i32 @dx.op.threadId.i32(i32 93, i32 0)", "%v0 = add i32 %id, 1"]
    for i in range(1, statements):
        if barriers and i % (statements // barriers) == 0:
            lines.append("call void @dx.op.barrier(i32 80, i32 9)")
        lines += [
            f"%l{i} = call %dx.types.ResRet.i32 @dx.op.bufferLoad.i32(i32 68, %dx.types.Handle %h0, i32 %v{i - 1}, i32 undef)",
            f"%x{i} = extractvalue %dx.types.ResRet.i32 %l{i}, 0",
            f"%d{i} = udiv i32 %x{i}, %id",
            f"%f{i} = uitofp i32 %d{i} to float",
            f"%e{i} = fmul float %f{i}, 1.5",
            f"%n{i} = fptoui float %e{i} to i32",
            f"%v{i} = add i32 %n{i}, %v{i // 2}",
            f"call void @dx.op.bufferStore.i32(i32 69, %dx.types.Handle %h0, i32 %v{i}, i32 undef, i32 %v{i}, i32 undef, i32 undef, i32 undef, i8 1)",
        ]
    return dxil.shader("\n".join([*lines, "ret void"]), threads=(128, 1, 1))


def test_no_shader_holds_a_user_up():
    """75,000 instructions and barriers, which would take 10 s at full effort, and the effort for larger shaders."""
    assert Compiler().compile(long_shader(1000, 8), (0,))
    assert codegen.effort_for(75_000) is codegen.REDUCED
    assert codegen.effort_for(1_000_000) is codegen.LEAST


def test_the_size_of_a_shader_counts_what_is_inlined():
    def instructions(statements):
        module = read_module(long_shader(statements, 0))
        translation = Translation(module, describe(module.text), [0])
        translation.run()
        return translation.instructions

    assert instructions(10) > 10 * 50
    assert instructions(40) - instructions(30) == pytest.approx(instructions(30) - instructions(20), rel=0.01)


@pytest.mark.parametrize("effort", [codegen.REDUCED, codegen.LEAST], ids=["reduced", "least"])
def test_less_effort_gives_the_same_results(effort, monkeypatch):
    code = long_shader(40, 4)
    results = []
    for chosen in (codegen.FULL, effort):
        monkeypatch.setattr(codegen, "effort_for", lambda _, chosen=chosen: chosen)
        memory = np.arange(4096, dtype=np.uint32)
        monkeypatch.setenv("DMLGRAPH_CACHE_DIR", f"/dev/null/{chosen}")
        dxil.compile_and_run(code, memory)
        results.append(memory)
    assert (results[0] != np.arange(4096)).any()
    np.testing.assert_array_equal(results[0], results[1])
