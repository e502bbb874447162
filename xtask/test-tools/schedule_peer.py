"""The peer of the benchmark of schedules: APScheduler with a job store in SQLite.

Arguments: a folder for its database, and a number of jobs that it has besides. It adds each job that a line of
standard input names by its instant (seconds since 1970), and prints how long adding took. When a job fires, it
prints how late that was. Both in milliseconds, with a word before.
"""

import datetime
import sys
import threading
import time

from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler

OUTPUT = threading.Lock()


def told(word, seconds):
    with OUTPUT:
        print(word, seconds * 1000, flush=True)


def fire(instant):
    told("late", time.time() - instant)


def main():
    folder, jobs = sys.argv[1], int(sys.argv[2])
    store = SQLAlchemyJobStore(url=f"sqlite:///{folder}/jobs.db")
    scheduler = BackgroundScheduler(jobstores={"default": store}, timezone="UTC")
    scheduler.start(paused=True)
    for number in range(jobs):
        scheduler.add_job(fire, "cron", month=1, day=1, hour=number % 24, minute=number % 60, args=[0])
    scheduler.resume()
    told("ready", 0)
    for line in sys.stdin:
        instant = float(line)
        date = datetime.datetime.fromtimestamp(instant, datetime.timezone.utc)
        began = time.perf_counter()
        scheduler.add_job(fire, "date", run_date=date, args=[instant])
        told("added", time.perf_counter() - began)


main()
