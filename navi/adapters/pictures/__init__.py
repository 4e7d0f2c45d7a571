"""Pictures made ready for models, in a process of their own: decoders are where hostile files bite."""
