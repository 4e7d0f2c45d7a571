"""A whole ``navi serve`` under load: its servers, a paced model and many clients, each in its process."""
