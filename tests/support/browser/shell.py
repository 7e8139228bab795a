"""Runs code as `manage.py shell` would, with Django set up once: reads it as JSON, a line each, and answers with a traceback or "".

`python -m tests.support.browser.shell`, configured by WEIR_* as any process is.
"""

import json
import os
import sys
import traceback


def main() -> None:
    import django

    answers, sys.stdout = sys.stdout, sys.stderr  # what the code prints is no answer
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    django.setup()
    for line in sys.stdin:
        problem = ""
        try:
            exec(json.loads(line), {})
        except Exception:  # noqa: BLE001  (the test that sent it fails with it)
            problem = traceback.format_exc()
        print(json.dumps(problem), file=answers, flush=True)


if __name__ == "__main__":
    main()
