"""Questions with ground truth, made from documents."""
