"""The timeline of a job: what each rank was doing, lane by lane, on one clock."""
