"""Commands that maintain what navi stores."""
