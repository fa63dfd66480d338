-- ARGV: now, longest wait, then task keys that were published again now
if not whole() then
    return 0
end
local now, most = tonumber(ARGV[1]), tonumber(ARGV[2])
for n = 3, #ARGV do
    local task = read(ARGV[n])
    if task and task.lane then
        local wait = math.max(tonumber(task.due_ms) - tonumber(task.published_ms), 1)
        wait = task.parked and wait or 2 * wait
        task.parked = nil
        task.published_ms, task.due_ms = ARGV[1], millis(now + math.min(wait, most))
        write(ARGV[n], task)
    end
end
keep(WEEK_MS)
return 1
