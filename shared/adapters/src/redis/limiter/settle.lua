-- KEYS: bucket. ARGV: quota of requests, quota of tokens, tokens used beyond the estimate (may be negative)
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'last')
local tokens = bucket[1]
if not tokens then
    return
end
-- The correction is for an earlier grant, so the time of the last grant is close enough.
local now = tonumber(bucket[2]) or clock('')
local quota_requests, quota_tokens = tonumber(ARGV[1]), tonumber(ARGV[2])
local _, tokens_rate = rates(now, quota_requests, quota_tokens)
redis.call('HSET', KEYS[1], 'tokens', number(tonumber(tokens) + tonumber(ARGV[3]) * 60000 / tokens_rate))
if quota_requests >= UNKNOWN or quota_tokens >= UNKNOWN then
    count(now, 0, ARGV[3])
end
