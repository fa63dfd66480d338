-- KEYS: bucket. ARGV: end of the pause ('' to use the server's clock and the next argument), milliseconds from now
local until_ms = tonumber(ARGV[1])
if not until_ms then
    local time = redis.call('TIME')
    until_ms = time[1] * 1000 + time[2] / 1000 + tonumber(ARGV[2])
end
local paused = tonumber(redis.call('HGET', KEYS[1], 'paused')) or 0
if until_ms > paused then
    redis.call('HSET', KEYS[1], 'paused', string.format('%.17g', until_ms))
end
local ms = tonumber(ARGV[2]) + 3600000
if redis.call('PTTL', KEYS[1]) < ms then
    redis.call('PEXPIRE', KEYS[1], ms)
end
