"""What navi costs, as ratios to the machine's own limits measured in the same run: ``make bench``."""
