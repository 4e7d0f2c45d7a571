"""The outside world, one folder a thing; each implements ports and knows no other adapter."""
