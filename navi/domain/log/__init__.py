"""The log as a whole: chained, signed, exported, checked, masked, erased, named on NATS."""
