"""What several families of operators share: number rules, axes, windows, scales and zero points, shaders' functions."""
