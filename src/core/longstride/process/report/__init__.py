"""The report's section about a process: people, queues and cases in played episodes."""
