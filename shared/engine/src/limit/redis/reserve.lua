-- ARGV: now, limit, amount, the call, how long it holds the amount -> 0 reserved, 1 no account, 2 not now, 3 too much
local now, limit, amount = clock(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local spent = tonumber(redis.call('HGET', KEYS[1], 'spent'))
if not spent then
    return 1
end
local total = held(now)
-- The answer to an earlier attempt was lost.
if redis.call('ZSCORE', KEYS[2], ARGV[4]) then
    keep(total)
    return 0
end
if spent + total + amount > limit then
    keep(total)
    return spent + amount <= limit and 2 or 3
end
redis.call('ZADD', KEYS[2], number(now + tonumber(ARGV[5])), ARGV[4])
keep(total + amount)
return 0
