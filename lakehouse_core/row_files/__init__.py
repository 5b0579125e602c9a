"""Row files: rows in files of users (CSV, JSON, Parquet, Arrow), as the columns of a table."""
