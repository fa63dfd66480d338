-- ARGV: now, most -> keys of tasks that are overdue, published now
if not whole() then
    return {}
end
local now = tonumber(ARGV[1])
local keys = redis.call('ZRANGEBYSCORE', DUE, '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
for _, key in ipairs(keys) do
    local task = read(key)
    local wait = math.max(tonumber(task.due_ms) - tonumber(task.published_ms), 1)
    task.published_ms, task.due_ms = ARGV[1], millis(now + 2 * wait)
    write(key, task)
end
keep(WEEK_MS)
return keys
