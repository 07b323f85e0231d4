"""One evaluation, from rows to report, over any store that keeps runs."""
