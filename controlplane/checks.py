"""System checks of the settings (placeholder ids are never reused)."""
