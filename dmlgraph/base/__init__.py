"""What knows no graph: errors, data types and descriptions of tensors, numbers, expressions, wording."""
