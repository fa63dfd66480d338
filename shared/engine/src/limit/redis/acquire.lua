-- KEYS: bucket. ARGV: now, the quota of requests and of tokens, how many milliseconds of each may be ahead, tokens -> 0
-- granted, milliseconds to wait, or -1 less the largest number of tokens that can pass. Both meters are charged, or none.
local now = clock(ARGV[1])
local quota_requests, quota_tokens = tonumber(ARGV[2]), tonumber(ARGV[3])
local requests_rate, tokens_rate = rates(now, quota_requests, quota_tokens)
local requests_ms, tokens_ms = 60000 / requests_rate, tonumber(ARGV[6]) * 60000 / tokens_rate
-- However slow the rate and short the burst, one request at a time must be able to pass.
local requests_ahead, tokens_ahead = math.max(tonumber(ARGV[4]), requests_ms), tonumber(ARGV[5])
if tokens_ms > tokens_ahead then
    return -1 - math.floor(tokens_ahead * tokens_rate / 60000)
end
local bucket = redis.call('HMGET', KEYS[1], 'requests', 'tokens', 'paused', 'last')
-- When everything granted will have been earned. No debt is longer than ten minutes: a clock that was set back, or
-- the clock of another server after a failover, must not stop everyone for as long.
local longest = now + 600000
local function earned(at)
    return math.min(math.max(tonumber(at) or 0, now), longest)
end
local requests, tokens = earned(bucket[1]) + requests_ms, earned(bucket[2]) + tokens_ms
local paused = tonumber(bucket[3]) or 0
local wait = math.max(requests - requests_ahead - now, tokens - tokens_ahead - now, paused - now)
if wait > 0 then
    return math.ceil(wait)
end
redis.call('HSET', KEYS[1], 'requests', number(requests), 'tokens', number(tokens))
-- Where no limit is known, what was granted is what is learned from.
if quota_requests >= UNKNOWN or quota_tokens >= UNKNOWN then
    if now >= (tonumber(bucket[4]) or 0) + 60000 then
        redis.call('HSET', KEYS[1], 'since', number(now))
    end
    redis.call('HSET', KEYS[1], 'last', number(now))
    count(now, 1, ARGV[6])
end
-- Idle buckets go; as long as a call may last, there is something to settle with.
redis.call('PEXPIRE', KEYS[1], math.ceil(math.max(requests, tokens) - now) + 3600000)
return 0
