-- What every script of an account begins with. KEYS: account, its calls by the end of their time, what was settled without it,
-- calls that were settled a moment ago.
local TTL_MS, MOST = 604800000, 100
-- What calls hold, without those whose time is over: at most a hundred of them at once, the rest the next time.
local function held(now)
    local total = tonumber(redis.call('HGET', KEYS[1], 'held')) or 0
    local over = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', number(now), 'LIMIT', 0, MOST)
    for _, call in ipairs(over) do
        total = total - tonumber(string.match(call, '%d+$'))
    end
    if over[1] then
        redis.call('ZREM', KEYS[2], unpack(over))
    end
    -- Without calls nothing is held, also where the set was evicted.
    return redis.call('EXISTS', KEYS[2]) == 1 and math.max(total, 0) or 0
end
-- An account that no one uses goes after a week: it is made anew from the log.
local function keep(total)
    redis.call('HSET', KEYS[1], 'held', number(total))
    redis.call('PEXPIRE', KEYS[1], TTL_MS)
    redis.call('PEXPIRE', KEYS[2], TTL_MS)
end
