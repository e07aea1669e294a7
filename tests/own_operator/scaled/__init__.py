"""An example package: operators of its own for Assay."""
