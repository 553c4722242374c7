"""A software Direct3D 12 adapter for Linux: DirectML's shaders, DXIL, compiled for the CPU with LLVM.

`adapter` loads the adapter's libraries and hands them the compiler; `compiler` turns DXIL containers into
native code.  A shader passes through `container`, `metadata`, `translate` (with `text`, `intrinsics`, `memory`
and `groups`), `codegen` and `cache`, in this order.
"""
