"""The HTTP API: routes by noun, each a few lines over ``ragassay.service.jobs``."""
