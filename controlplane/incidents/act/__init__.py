"""What people and other programs do: act on incidents, make silences, record changes."""
