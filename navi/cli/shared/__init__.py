"""What commands share: settings, exit status, output, and the navi that they speak to."""
