"""Rules for quantized tensors: operators compute with the integers themselves."""
