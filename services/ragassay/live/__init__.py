"""Live traffic: spans of running systems become requests, some of which are evaluated by jobs and summed up in windows."""
