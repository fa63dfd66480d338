-- KEYS: names by expiry, bodies by name. ARGV: now -> name, body and expiry of each record that has not expired
local records = {}
local names = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ARGV[1], '+inf', 'WITHSCORES')
for n = 1, #names, 2 do
    local body = redis.call('HGET', KEYS[2], names[n])
    if body then
        records[#records + 1] = { names[n], body, names[n + 1] }
    end
end
return records
