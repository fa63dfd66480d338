-- KEYS: the due-time index. ARGV: now, again, most -> things that are due, moved to `again`
local things = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[3])
for _, thing in ipairs(things) do
    redis.call('ZADD', KEYS[1], ARGV[2], thing)
end
redis.call('PEXPIRE', KEYS[1], 604800000)
return things
