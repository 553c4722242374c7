"""Files that hold graphs: YAML, ONNX, DxDispatch; and arrays in files."""
