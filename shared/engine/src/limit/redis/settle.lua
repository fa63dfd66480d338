-- KEYS: bucket. ARGV: what was used beyond the estimate, in milliseconds of the rate of tokens; may be negative
local tokens = redis.call('HGET', KEYS[1], 'tokens')
if tokens then
    redis.call('HSET', KEYS[1], 'tokens', string.format('%.17g', tonumber(tokens) + tonumber(ARGV[1])))
end
