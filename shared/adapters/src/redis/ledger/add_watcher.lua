-- ARGV: job
open_run()
redis.call('SADD', JOBS, ARGV[1])
extend_ttl(WEEK_MS)
