"""One process for each engine. Nothing here imports assay but the worker named so: peers have an interpreter of their own."""
