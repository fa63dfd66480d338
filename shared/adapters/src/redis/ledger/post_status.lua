-- KEYS: names by expiry, bodies by name. ARGV: name, body, expiry, now, limit. The records that expire first make room.
if redis.call('EXISTS', KEYS[1], KEYS[2]) == 1 then
    redis.call('UNLINK', KEYS[1], KEYS[2]) -- the other was evicted
end
local function remove(names)
    for _, name in ipairs(names) do
        redis.call('ZREM', KEYS[1], name)
        redis.call('HDEL', KEYS[2], name)
    end
end
remove(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[4]))
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
local excess = redis.call('ZCARD', KEYS[1]) - tonumber(ARGV[5])
if excess > 0 then
    remove(redis.call('ZRANGE', KEYS[1], 0, excess - 1))
end
local ms = math.max(tonumber(ARGV[3]) - tonumber(ARGV[4]), 0) + 60000
if redis.call('PTTL', KEYS[1]) < ms then
    redis.call('PEXPIRE', KEYS[1], ms)
    redis.call('PEXPIRE', KEYS[2], ms)
end
