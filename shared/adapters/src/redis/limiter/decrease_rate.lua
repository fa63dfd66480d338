-- KEYS: bucket. ARGV: now, milliseconds since the rejected request was granted. aimd.rs explains the rules.
local now = clock(ARGV[1])
count(now, -1, 0)
local fields = redis.call('HMGET', KEYS[1], 'slowed', 'period', 'learned_requests', 'learned_tokens', 'since',
    'requests', 'tokens')
local decreased = tonumber(fields[1])
if decreased and now - tonumber(ARGV[2]) < decreased then
    return
end
local watched_ms = math.min(math.max(now - (tonumber(fields[5]) or now), 5000), 60000)
local first, part = math.floor(now / SLOT_MS) - (SLOTS - 1), 1 - (now % SLOT_MS) / SLOT_MS
local granted_requests, granted_tokens = 0, 0
for i = 0, SLOTS - 1 do
    local slot = redis.call('HMGET', KEYS[1], 'slot' .. i, 'requests' .. i, 'tokens' .. i)
    local at = tonumber(slot[1]) or 0
    local share = at > first and 1 or at == first and part or 0
    granted_requests = granted_requests + share * (tonumber(slot[2]) or 0)
    granted_tokens = granted_tokens + share * (tonumber(slot[3]) or 0)
end
local growth = decreased and growth_factor(now, decreased, tonumber(fields[2])) or 1
local function rate(granted, previous)
    return math.max(0.95 * granted * 60000 / watched_ms, 0.7 * (tonumber(previous) or 1) * growth, 1)
end
local requests = math.max(rate(granted_requests, fields[3]), watched_ms < 60000 and 30 or 1)
local tokens = math.max(rate(granted_tokens, fields[4]), 10000)
local period = watched_ms < 60000 and 10000 or math.max(60000, 75 * 60000 / requests)
-- If one meter is idle, the other limit was exceeded. That confirms its rate, and the idle meter keeps its grown rate.
local requests_idle, tokens_idle = (tonumber(fields[6]) or 0) <= now, (tonumber(fields[7]) or 0) <= now
if decreased and requests_idle ~= tokens_idle then
    redis.call('HSET', KEYS[1], 'proved_' .. (tokens_idle and 'requests' or 'tokens'), 1)
    if tokens_idle then
        tokens = tonumber(fields[4]) * growth
    else
        requests = tonumber(fields[3]) * growth
    end
end
redis.call('HSET', KEYS[1], 'learned_requests', number(requests), 'learned_tokens', number(tokens), 'slowed', number(now),
    'period', number(period), 'looked', number(now), 'alone_requests', 0, 'alone_tokens', 0)
if redis.call('PTTL', KEYS[1]) < 3600000 then
    redis.call('PEXPIRE', KEYS[1], 3600000)
end
