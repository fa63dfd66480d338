-- Included before every script of an account. KEYS: account, its reservations by expiry, the amount settled before it was
-- opened, and recently settled calls.
local TTL_MS, EXPIRED_BATCH = 604800000, 100
-- The reserved amount. Removes up to a hundred expired reservations; the next call removes more.
local function reserved(now)
    local total = tonumber(redis.call('HGET', KEYS[1], 'held')) or 0
    local expired = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', number(now), 'LIMIT', 0, EXPIRED_BATCH)
    for _, call in ipairs(expired) do
        total = total - tonumber(string.match(call, '%d+$'))
    end
    if expired[1] then
        redis.call('ZREM', KEYS[2], unpack(expired))
    end
    -- Nothing is reserved if the set is missing, which also covers its eviction.
    return redis.call('EXISTS', KEYS[2]) == 1 and math.max(total, 0) or 0
end
-- Stores the reserved amount. Unused accounts expire after a week and are rebuilt from the stored calls.
local function store_reserved(total)
    redis.call('HSET', KEYS[1], 'held', number(total))
    redis.call('PEXPIRE', KEYS[1], TTL_MS)
    redis.call('PEXPIRE', KEYS[2], TTL_MS)
end
