"""The same turn kept by others: what somebody would take in place of navi, on the same Postgres."""
