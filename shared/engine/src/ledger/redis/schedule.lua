-- KEYS: the due-time index. ARGV: thing, when. An earlier time stays
redis.call('ZADD', KEYS[1], 'LT', ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], 604800000)
