"""Classes of cases from the attributes of a log: values, evidence, and the log with split activities."""
