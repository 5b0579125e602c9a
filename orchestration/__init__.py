"""When: jobs, schedules, sensors, and the definitions where all meet."""
