-- ARGV: due by, keys to skip, most, the far future -> keys of tasks that are overdue
if not whole() then
    return {}
end
local skip, most = tonumber(ARGV[2]), tonumber(ARGV[3])
local keys = redis.call('ZRANGEBYSCORE', DUE, '-inf', ARGV[1], 'LIMIT', skip, most)
if #keys < most then
    -- those whose due time was set by a clock ahead; the entry at infinity is no task
    local due = redis.call('ZCOUNT', DUE, '-inf', ARGV[1])
    local far = redis.call('ZRANGEBYSCORE', DUE, '(' .. ARGV[4], '(+inf', 'LIMIT', math.max(skip - due, 0), most - #keys)
    for _, key in ipairs(far) do
        keys[#keys + 1] = key
    end
end
return keys
