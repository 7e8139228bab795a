"""Where configuration comes from: files and custom resources, applied to the rooms that know their kinds."""
