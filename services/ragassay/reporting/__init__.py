"""What reports, comparisons, gates, costs and trends say, as documents, and the files that they are written to."""
