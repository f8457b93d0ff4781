"""A latentbeam job as an Airflow task, every night.

The exit code says what is to be done: 75 means "again later", which is Airflow's retry. 1 and 2 are for people, and no
retry mends them. A run that was killed is simply run again: what is done stays done.

Checked: compiled, and run_job with a stand-in for Airflow. NOT VERIFIED: Airflow itself.
"""

from __future__ import annotations

import datetime
import signal
import subprocess

from airflow.decorators import dag, task
from airflow.exceptions import AirflowException, AirflowFailException

PROGRAM = "latentbeam"
JOB = "/srv/jobs/shapes.yaml"
DRAIN_SECONDS = 120  # longer than the job's drain_timeout


def run_job(job: str, *flags: str) -> None:
    """Run a job to its end. A task that Airflow ends lets it publish what is in flight."""
    process = subprocess.Popen([PROGRAM, "run", job, *flags])
    try:
        code = process.wait()
    except BaseException:  # Airflow ends a task by an exception
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(DRAIN_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
        raise
    if code == 0:
        return
    if code == 1:
        raise AirflowFailException("the job is done, but rows failed: see its failures table")
    if code == 2:
        raise AirflowFailException("the job file or its input is wrong: see the log")
    raise AirflowException(f"{PROGRAM} ended with {code}: again later")


@dag(
    schedule="30 2 * * *",
    start_date=datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc),
    catchup=False,
    max_active_runs=1,  # two runs on one output would wait for each other
    default_args={"retries": 20, "retry_delay": datetime.timedelta(minutes=5)},
)
def latentbeam_nightly():
    """One task: the tables of the night."""

    @task
    def generate() -> None:
        run_job(JOB, "--allow-empty")

    generate()


latentbeam_nightly()
