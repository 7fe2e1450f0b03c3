"""Learning by doing: the executable lab, whose every printed number is asserted."""
