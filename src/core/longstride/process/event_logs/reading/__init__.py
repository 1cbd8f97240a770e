"""From a file that people have to checked records, one job a file; ``read_records`` is the order of the jobs."""
