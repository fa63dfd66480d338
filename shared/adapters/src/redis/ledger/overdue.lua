-- ARGV: latest due time, keys to skip, limit, far future -> keys of overdue tasks
if not is_complete() then
    return {}
end
local skip, limit = tonumber(ARGV[2]), tonumber(ARGV[3])
local keys = redis.call('ZRANGEBYSCORE', DUE, '-inf', ARGV[1], 'LIMIT', skip, limit)
if #keys < limit then
    -- tasks whose due time was set by a clock that was ahead; the entry at infinity is no task
    local due = redis.call('ZCOUNT', DUE, '-inf', ARGV[1])
    local distant = redis.call('ZRANGEBYSCORE', DUE, '(' .. ARGV[4], '(+inf', 'LIMIT', math.max(skip - due, 0), limit - #keys)
    for _, key in ipairs(distant) do
        keys[#keys + 1] = key
    end
end
return keys
