-- ARGV: job
begin()
redis.call('SADD', JOBS, ARGV[1])
keep(WEEK_MS)
