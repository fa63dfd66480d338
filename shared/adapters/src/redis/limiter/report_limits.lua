-- KEYS: bucket. ARGV: now, quota of requests, quota of tokens, burst of each for bulk work in milliseconds, and the reported
-- limits: requests and tokens per minute, requests and tokens remaining ('' if not reported)
local now = clock(ARGV[1])
if ARGV[6] ~= '' then
    redis.call('HSET', KEYS[1], 'stated_requests', ARGV[6], 'stated_requests_at', number(now))
end
if ARGV[7] ~= '' then
    redis.call('HSET', KEYS[1], 'stated_tokens', ARGV[7], 'stated_tokens_at', number(now))
end
local requests_rate, tokens_rate = rates(now, tonumber(ARGV[2]), tonumber(ARGV[3]))
-- Advances a meter until no more than what remains can be granted at once.
local function advance(meter, ahead, remaining, slack, rate)
    if not remaining then
        return
    end
    local owed = now + math.max(ahead - (remaining + slack) * 60000 / rate, 0)
    if owed > (tonumber(redis.call('HGET', KEYS[1], meter)) or 0) then
        redis.call('HSET', KEYS[1], meter, number(owed))
    end
end
advance('requests', tonumber(ARGV[4]), tonumber(ARGV[8]), 2, requests_rate)
advance('tokens', tonumber(ARGV[5]), tonumber(ARGV[9]), tokens_rate / 60, tokens_rate)
if redis.call('PTTL', KEYS[1]) < 3600000 then
    redis.call('PEXPIRE', KEYS[1], 3600000)
end
