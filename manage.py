#!/usr/bin/env python
"""Django's command line for Weir."""

import os
import sys

from django.conf import settings
from django.core.management import execute_from_command_line
from django.db import DatabaseError

from controlplane.config.databases import refusal

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    try:
        execute_from_command_line(sys.argv)
    except KeyboardInterrupt:
        sys.exit(130)
    except DatabaseError as error:
        line = refusal(error, settings.DATABASES["default"])
        if not line or "--traceback" in sys.argv:
            raise
        sys.exit(f"manage.py: {line}")
