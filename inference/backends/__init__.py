"""What answers: one file per kind of model server, each the only importer of its client."""
