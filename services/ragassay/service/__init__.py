"""The service: jobs in Redis, the workers that take them, schedules, notifications, keys."""
