"""Host arrays to the device, one example at a time."""
