"""Users of this machine: where they begin, what they hold in hand, what they may take."""
