"""Work that can wait: files, batches, background responses and jobs, each line of which has exactly one result. See docs/batches.md and
docs/jobs.md.
"""
