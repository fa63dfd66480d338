-- What every script of a bucket begins with; learn.rs and gcra.rs say why.
local UNKNOWN, SLOT_MS, SLOTS = 4294967295, 5000, 13
-- The caller's time, or the server's where it is ''.
local function clock(given)
    local now = tonumber(given)
    if now then
        return now
    end
    local time = redis.call('TIME')
    return time[1] * 1000 + time[2] / 1000
end
-- How much a learned rate has grown.
local function grown(now, slowed, period)
    return 1 + 0.05 * (2 ^ math.min(math.max(now - slowed, 0) / period, 16) - 1)
end
-- Requests and tokens per minute in force, under a quota.
local function rates(now, requests, tokens)
    local said = redis.call('HMGET', KEYS[1], 'stated_requests', 'stated_tokens', 'learned_requests', 'learned_tokens',
        'slowed', 'period')
    local growth = said[5] and grown(now, tonumber(said[5]), tonumber(said[6])) or 1
    local function rate(quota, stated, learned)
        local rate = math.min(quota, tonumber(stated) or quota)
        if quota >= UNKNOWN and learned then
            rate = math.min(rate, tonumber(learned) * growth)
        end
        return math.max(rate, 1)
    end
    return rate(requests, said[1], said[3]), rate(tokens, said[2], said[4])
end
-- Counts in the slot of now.
local function count(now, requests, tokens)
    local number = math.floor(now / SLOT_MS)
    local i = number % SLOTS
    if tonumber(redis.call('HGET', KEYS[1], 'slot' .. i)) ~= number then
        redis.call('HSET', KEYS[1], 'slot' .. i, number, 'requests' .. i, 0, 'tokens' .. i, 0)
    end
    redis.call('HINCRBYFLOAT', KEYS[1], 'requests' .. i, requests)
    redis.call('HINCRBYFLOAT', KEYS[1], 'tokens' .. i, tokens)
end
local function number(value)
    return string.format('%.17g', value)
end
