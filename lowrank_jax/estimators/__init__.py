"""What a user holds: models that fit, predict, save and load."""
