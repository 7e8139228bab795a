"""`python -m deploy.local`: all of Weir on this machine, until Ctrl-C. `make run` sets up and starts it."""

import signal
import sys

if __name__ == "__main__":
    # Before the supervisor handles signals nothing was started that has to be ended: Ctrl-C ends this process without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from deploy.local.launch import main

    sys.exit(main())
