"""A software Direct3D 12 adapter for Linux: compiles DirectML's DXIL shaders for the CPU with LLVM.

`adapter` loads the adapter's libraries and gives them the compiler; `compiler` turns DXIL containers into
native code.  A shader passes through `container`, `metadata`, `translate` (with `text`, `intrinsics`, `memory`
and `groups`), `codegen` and `cache`, in this order.
"""
