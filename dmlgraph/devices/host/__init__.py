"""What devices need of the process they run in: interrupts, its end, its cache folder, memory of arrays."""
