"""Word counts on disk: a shard for each chunk, a DuckDB table for each corpus."""
