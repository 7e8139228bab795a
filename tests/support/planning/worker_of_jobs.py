"""`python -m tests.support.planning.worker_of_jobs`: runs queued jobs as a worker does, and ends when there are none."""

import django

if __name__ == "__main__":
    django.setup()
    from controlplane.planning import jobs

    jobs.run_queued()
