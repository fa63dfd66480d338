-- KEYS: due-time index. ARGV: entry, due time. An earlier due time is not replaced.
redis.call('ZADD', KEYS[1], 'LT', ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], 604800000)
