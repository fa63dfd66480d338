-- KEYS: bucket. ARGV: now, quota of requests, quota of tokens, burst of each in milliseconds, tokens -> 0 if granted,
-- milliseconds to wait, or -1 minus the largest number of tokens that can pass. Both meters are charged, or none.
local now = clock(ARGV[1])
local quota_requests, quota_tokens = tonumber(ARGV[2]), tonumber(ARGV[3])
local requests_rate, tokens_rate = rates(now, quota_requests, quota_tokens)
local requests_ms, tokens_ms = 60000 / requests_rate, tonumber(ARGV[6]) * 60000 / tokens_rate
-- One request at a time must be able to pass, however slow the rate and short the burst.
local requests_ahead, tokens_ahead = math.max(tonumber(ARGV[4]), requests_ms), tonumber(ARGV[5])
if tokens_ms > tokens_ahead then
    return -1 - math.floor(tokens_ahead * tokens_rate / 60000)
end
local bucket = redis.call('HMGET', KEYS[1], 'requests', 'tokens', 'paused', 'last')
-- Theoretical arrival time: when everything granted will have been earned. It is at most ten minutes ahead: a clock that was
-- set back, or the clock of another server after a failover, must not block all requests for longer.
local latest = now + 600000
local function arrival(at)
    return math.min(math.max(tonumber(at) or 0, now), latest)
end
local requests, tokens = arrival(bucket[1]) + requests_ms, arrival(bucket[2]) + tokens_ms
local paused = tonumber(bucket[3]) or 0
local requests_wait, tokens_wait = requests - requests_ahead - now, tokens - tokens_ahead - now
local wait = math.max(requests_wait, tokens_wait, paused - now)
if wait > 0 then
    -- An unconfirmed rate that alone blocks requests grows (aimd.rs).
    local alone, other
    if tokens_wait <= 0 and (tonumber(bucket[2]) or 0) <= now then
        alone, other = 'requests', 'tokens'
    elseif requests_wait <= 0 and (tonumber(bucket[1]) or 0) <= now then
        alone, other = 'tokens', 'requests'
    end
    local fields = redis.call('HMGET', KEYS[1], 'learned_' .. (alone or 'none'), 'looked')
    if fields[1] and paused <= now then
        local times = redis.call('HINCRBY', KEYS[1], 'alone_' .. alone, 1)
        if now >= tonumber(fields[2]) + 10000 then
            local others = redis.call('HMGET', KEYS[1], 'alone_' .. other, 'proved_' .. alone)
            if not others[2] and times >= 4 and times >= 4 * (tonumber(others[1]) or 0) then
                redis.call('HSET', KEYS[1], 'learned_' .. alone, number(tonumber(fields[1]) * 1.5))
            end
            redis.call('HSET', KEYS[1], 'looked', number(now), 'alone_requests', 0, 'alone_tokens', 0)
        end
    end
    return math.ceil(wait)
end
redis.call('HSET', KEYS[1], 'requests', number(requests), 'tokens', number(tokens))
-- Without a known limit, the adaptive rate learns from what was granted.
if quota_requests >= UNKNOWN or quota_tokens >= UNKNOWN then
    if now >= (tonumber(bucket[4]) or 0) + 60000 then
        redis.call('HSET', KEYS[1], 'since', number(now))
    end
    redis.call('HSET', KEYS[1], 'last', number(now))
    count(now, 1, ARGV[6])
end
-- Idle buckets expire, but not before their last call can be settled.
redis.call('PEXPIRE', KEYS[1], math.ceil(math.max(requests, tokens) - now) + 3600000)
return 0
