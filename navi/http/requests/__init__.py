"""What all routes share: services, bodies, validation, errors as problems."""
