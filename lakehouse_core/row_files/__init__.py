"""Row files: read rows of a user's files (CSV, JSON, Parquet, Arrow) as the columns of a table."""
