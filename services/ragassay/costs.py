"""What accurate answers cost over time: sums over stored reports, which outlive the rows."""
