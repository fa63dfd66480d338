-- Included before every script of a bucket. aimd.rs and gcra.rs of the engine explain the rules.
local UNKNOWN, SLOT_MS, SLOTS, REPORT_TTL_MS = 4294967295, 5000, 13, 600000
-- The caller's time, or the server's if it is ''.
local function clock(given)
    local now = tonumber(given)
    if now then
        return now
    end
    local time = redis.call('TIME')
    return time[1] * 1000 + time[2] / 1000
end
-- Growth factor of a learned rate.
local function growth_factor(now, decreased, period)
    return 1 + 0.05 * (2 ^ math.min(math.max(now - decreased, 0) / period, 16) - 1)
end
-- Effective requests and tokens per minute under a quota. A report without a time is of an earlier version.
local function rates(now, requests, tokens)
    local fields = redis.call('HMGET', KEYS[1], 'stated_requests', 'stated_tokens', 'learned_requests', 'learned_tokens',
        'slowed', 'period', 'stated_requests_at', 'stated_tokens_at')
    local growth = fields[5] and growth_factor(now, tonumber(fields[5]), tonumber(fields[6])) or 1
    local function rate(quota, reported, reported_at, learned)
        if now >= (tonumber(reported_at) or now) + REPORT_TTL_MS then
            reported = nil
        end
        local rate = math.min(quota, tonumber(reported) or quota)
        if quota >= UNKNOWN and learned then
            rate = math.min(rate, tonumber(learned) * growth)
        end
        return math.max(rate, 1)
    end
    return rate(requests, fields[1], fields[7], fields[3]), rate(tokens, fields[2], fields[8], fields[4])
end
-- Adds to the current slot of the one-minute window.
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
