-- KEYS: names by when they go, bodies by name. ARGV: now -> name, body and until of each that has not gone
local notices = {}
local names = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ARGV[1], '+inf', 'WITHSCORES')
for n = 1, #names, 2 do
    local body = redis.call('HGET', KEYS[2], names[n])
    if body then
        notices[#notices + 1] = { names[n], body, names[n + 1] }
    end
end
return notices
