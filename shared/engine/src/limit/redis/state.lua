-- KEYS: bucket. ARGV: now, the quota of requests and of tokens, how many milliseconds of each bulk work may be ahead, and
-- what the provider states: requests and tokens per minute, requests and tokens left ('' where it says nothing)
local now = clock(ARGV[1])
if ARGV[6] ~= '' then
    redis.call('HSET', KEYS[1], 'stated_requests', ARGV[6])
end
if ARGV[7] ~= '' then
    redis.call('HSET', KEYS[1], 'stated_tokens', ARGV[7])
end
local requests_rate, tokens_rate = rates(now, tonumber(ARGV[2]), tonumber(ARGV[3]))
local function owe(meter, ahead, left, slack, rate)
    if not left then
        return
    end
    local owed = now + math.max(ahead - (left + slack) * 60000 / rate, 0)
    if owed > (tonumber(redis.call('HGET', KEYS[1], meter)) or 0) then
        redis.call('HSET', KEYS[1], meter, number(owed))
    end
end
owe('requests', tonumber(ARGV[4]), tonumber(ARGV[8]), 2, requests_rate)
owe('tokens', tonumber(ARGV[5]), tonumber(ARGV[9]), tokens_rate / 60, tokens_rate)
if redis.call('PTTL', KEYS[1]) < 3600000 then
    redis.call('PEXPIRE', KEYS[1], 3600000)
end
