"""Makes senders to be killed: Django is set up once, and each line on standard input forks a process that sends. Prints its pid.

`python -m tests.support.incidents.sender_zygote`, configured by WEIR_* as any process is.
"""

import json
import os
import sys


def main() -> None:
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    django.setup()
    from controlplane.incidents.notify.delivery.core.retry import Policy
    from controlplane.incidents.notify.delivery.send.sender import Sender

    policy = Policy(**json.loads(sys.argv[1]))
    print("ready", flush=True)
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            sys.stdin.close()
            Sender(policy, poll_s=0.05).run()
            os._exit(0)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
