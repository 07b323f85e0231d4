"""Where runs, results and reports are kept."""
