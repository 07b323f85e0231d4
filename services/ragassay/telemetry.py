"""What operators see of the service: metrics, log lines and traces, each with the job that it is about."""
