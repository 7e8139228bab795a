"""`python -m tests.support.planning.worker_of_jobs`: runs queued jobs as a worker does, without Prophet, and ends when there are none."""

import django

if __name__ == "__main__":
    django.setup()
    from controlplane.planning import jobs, refresh
    from forecasting.refresh import Limits

    refresh.LIMITS = Limits(prophet=False)
    jobs.run_queued()
