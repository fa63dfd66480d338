-- KEYS: due-time index. ARGV: now, next due time, limit, far future -> due entries. Each becomes due again at the next due time.
-- Entries in the far future were set by a clock that was ahead.
local entries = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[3])
if #entries < tonumber(ARGV[3]) then
    local distant = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ARGV[4], '+inf', 'LIMIT', 0, tonumber(ARGV[3]) - #entries)
    for _, entry in ipairs(distant) do
        entries[#entries + 1] = entry
    end
end
for _, entry in ipairs(entries) do
    redis.call('ZADD', KEYS[1], ARGV[2], entry)
end
redis.call('PEXPIRE', KEYS[1], 604800000)
return entries
