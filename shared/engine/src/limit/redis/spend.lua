-- ARGV: now, the call, the amount it reserved, what it used
if redis.call('HEXISTS', KEYS[1], 'spent') == 0 then
    redis.call('INCRBY', KEYS[3], ARGV[4])
    redis.call('PEXPIRE', KEYS[3], TTL_MS)
    return
end
local total = held(clock(ARGV[1]))
if redis.call('ZREM', KEYS[2], ARGV[2]) == 1 then
    total = total - tonumber(ARGV[3])
end
redis.call('HSET', KEYS[1], 'spent', number(tonumber(redis.call('HGET', KEYS[1], 'spent')) + tonumber(ARGV[4])))
keep(total)
