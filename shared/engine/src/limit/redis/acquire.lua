-- KEYS: bucket. ARGV: now ('' for the server's clock), what requests cost and may be ahead, the same of tokens, in
-- milliseconds of their rates -> 0 granted, or milliseconds to wait. Both meters are charged, or none.
local now = tonumber(ARGV[1])
if not now then
    local time = redis.call('TIME')
    now = time[1] * 1000 + time[2] / 1000
end
local requests_ms, requests_ahead, tokens_ms, tokens_ahead =
    tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local bucket = redis.call('HMGET', KEYS[1], 'requests', 'tokens', 'paused')
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
redis.call('HSET', KEYS[1], 'requests', string.format('%.17g', requests), 'tokens', string.format('%.17g', tokens))
-- Idle buckets go; as long as a call may last, there is something to settle with.
redis.call('PEXPIRE', KEYS[1], math.ceil(math.max(requests, tokens) - now) + 3600000)
return 0
