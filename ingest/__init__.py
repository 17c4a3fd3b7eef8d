"""Any trace file -> the canonical Parquet run."""
