"""--mode whatif: policies on a process and on changed ones."""
