"""The HTTP door: routes by noun, each a few lines over ``ragassay.jobs``."""
