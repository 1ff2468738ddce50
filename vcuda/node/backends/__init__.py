"""Who keeps the limits of a claim: the library in front of the driver, the driver itself, or nobody, because the card is not shared."""
