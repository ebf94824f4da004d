"""How expressions are evaluated: as texts of Spark SQL, or over arrays in this process."""
