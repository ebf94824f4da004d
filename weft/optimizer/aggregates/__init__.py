"""What aggregates need of rows: of those of streams, which Spark reduces, and of those in the driver."""
