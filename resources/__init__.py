"""With what: the warehouse and its Spark session."""
