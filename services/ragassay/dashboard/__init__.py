"""Pages that show runs in a browser. They read the documents that the API and the exporters read, and compute nothing."""
