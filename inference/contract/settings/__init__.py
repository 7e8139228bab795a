"""The names of all settings, whichever process reads them."""
