"""One process for each engine. Only the worker named so imports assay: peers have their own interpreter."""
