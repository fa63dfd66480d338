-- ARGV: now, call, reserved amount, used amount, how long repeated settlements are recognized
local now = clock(ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', number(now))
-- The reply to an earlier attempt was lost.
if redis.call('ZADD', KEYS[4], 'NX', number(now + tonumber(ARGV[5])), ARGV[2]) == 0 then
    return
end
redis.call('PEXPIRE', KEYS[4], ARGV[5])
if redis.call('HEXISTS', KEYS[1], 'spent') == 0 then
    redis.call('INCRBY', KEYS[3], ARGV[4])
    redis.call('PEXPIRE', KEYS[3], TTL_MS)
    return
end
local total = reserved(now)
if redis.call('ZREM', KEYS[2], ARGV[2]) == 1 then
    total = total - tonumber(ARGV[3])
end
redis.call('HSET', KEYS[1], 'spent', number(tonumber(redis.call('HGET', KEYS[1], 'spent')) + tonumber(ARGV[4])))
store_reserved(total)
