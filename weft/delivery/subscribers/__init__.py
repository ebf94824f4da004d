"""The user's side: subscribers of a delivery log, of an edge and of a broker."""
