"""Work that can wait: files, batches and background responses, each line of which has exactly one result. See docs/batches.md."""
