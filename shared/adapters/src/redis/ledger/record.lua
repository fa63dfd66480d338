-- ARGV: task key, outcome
open_run()
if redis.call('SADD', ENDED, ARGV[1]) == 1 then
    redis.call('RPUSH', LOG, ARGV[1] .. ARGV[2])
    redis.call('HDEL', OPEN, ARGV[1])
    redis.call('ZREM', DUE, ARGV[1])
end
extend_ttl(WEEK_MS)
