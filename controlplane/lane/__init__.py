"""Work that can wait: files and batches, each line of which has exactly one result. See docs/batches.md."""
