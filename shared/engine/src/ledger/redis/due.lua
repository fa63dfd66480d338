-- KEYS: the due-time index. ARGV: now, again, most, the far future -> things that are due, moved to `again`
local things = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[3])
if #things < tonumber(ARGV[3]) then
    local far = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ARGV[4], '+inf', 'LIMIT', 0, tonumber(ARGV[3]) - #things)
    for _, thing in ipairs(far) do
        things[#things + 1] = thing
    end
end
for _, thing in ipairs(things) do
    redis.call('ZADD', KEYS[1], ARGV[2], thing)
end
redis.call('PEXPIRE', KEYS[1], 604800000)
return things
