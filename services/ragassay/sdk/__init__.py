"""For Python: evaluate, compare, a report to look into, and a client of a service."""
