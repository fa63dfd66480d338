-- ARGV: task key, what became of it
begin()
if redis.call('SADD', ENDED, ARGV[1]) == 1 then
    redis.call('RPUSH', LOG, ARGV[1] .. ARGV[2])
    redis.call('HDEL', OPEN, ARGV[1])
    redis.call('ZREM', DUE, ARGV[1])
end
keep(WEEK_MS)
