-- ARGV: now, limit, amount, call, its time to live -> 0 reserved, 1 unknown account, 2 may fit later, 3 exceeds the limit
local now, limit, amount = clock(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local spent = tonumber(redis.call('HGET', KEYS[1], 'spent'))
if not spent then
    return 1
end
local total = reserved(now)
-- The reply to an earlier attempt was lost.
if redis.call('ZSCORE', KEYS[2], ARGV[4]) then
    store_reserved(total)
    return 0
end
if spent + total + amount > limit then
    store_reserved(total)
    return spent + amount <= limit and 2 or 3
end
redis.call('ZADD', KEYS[2], number(now + tonumber(ARGV[5])), ARGV[4])
-- A request of a batch that the provider refused is reserved again under its id.
redis.call('ZREM', KEYS[4], ARGV[4])
store_reserved(total + amount)
return 0
