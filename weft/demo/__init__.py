"""The demonstration: a year of flights and weather in New York, replayed as two streams under many queries."""
