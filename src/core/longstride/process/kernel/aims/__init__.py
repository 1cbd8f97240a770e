"""The aims of a process in its kernel: arrays, and the quantities that they weigh."""
