-- KEYS: bucket. ARGV: now, milliseconds since the refused request was granted. The law is told in learn.rs.
local now = clock(ARGV[1])
count(now, -1, 0)
local said = redis.call('HMGET', KEYS[1], 'slowed', 'period', 'learned_requests', 'learned_tokens', 'since',
    'requests', 'tokens')
local slowed = tonumber(said[1])
if slowed and now - tonumber(ARGV[2]) < slowed then
    return
end
local watched = math.min(math.max(now - (tonumber(said[5]) or now), 5000), 60000)
local first, part = math.floor(now / SLOT_MS) - (SLOTS - 1), 1 - (now % SLOT_MS) / SLOT_MS
local seen_requests, seen_tokens = 0, 0
for i = 0, SLOTS - 1 do
    local slot = redis.call('HMGET', KEYS[1], 'slot' .. i, 'requests' .. i, 'tokens' .. i)
    local at = tonumber(slot[1]) or 0
    local share = at > first and 1 or at == first and part or 0
    seen_requests, seen_tokens =
        seen_requests + share * (tonumber(slot[2]) or 0), seen_tokens + share * (tonumber(slot[3]) or 0)
end
local growth = slowed and grown(now, slowed, tonumber(said[2])) or 1
local function rate(seen, before)
    return math.max(0.95 * seen * 60000 / watched, 0.7 * (tonumber(before) or 1) * growth, 1)
end
local requests = math.max(rate(seen_requests, said[3]), watched < 60000 and 30 or 1)
local tokens = math.max(rate(seen_tokens, said[4]), 10000)
local period = watched < 60000 and 10000 or math.max(60000, 75 * 60000 / requests)
-- Where one meter is at rest it was the other limit: that is proved, and the one at rest stays what it has grown to.
local requests_rest, tokens_rest = (tonumber(said[6]) or 0) <= now, (tonumber(said[7]) or 0) <= now
if slowed and requests_rest ~= tokens_rest then
    redis.call('HSET', KEYS[1], 'proved_' .. (tokens_rest and 'requests' or 'tokens'), 1)
    if tokens_rest then
        tokens = tonumber(said[4]) * growth
    else
        requests = tonumber(said[3]) * growth
    end
end
redis.call('HSET', KEYS[1], 'learned_requests', number(requests), 'learned_tokens', number(tokens), 'slowed', number(now),
    'period', number(period), 'looked', number(now), 'alone_requests', 0, 'alone_tokens', 0)
if redis.call('PTTL', KEYS[1]) < 3600000 then
    redis.call('PEXPIRE', KEYS[1], 3600000)
end
