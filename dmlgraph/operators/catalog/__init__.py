"""All operators by name, with examples, help, and their names in other libraries."""
