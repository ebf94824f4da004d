"""NATS with JetStream, as what takes parcels away and as where they can be had from."""
