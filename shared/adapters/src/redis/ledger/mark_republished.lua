-- ARGV: now, longest wait, then keys of the tasks that were republished now
if not is_complete() then
    return 0
end
local now, longest = tonumber(ARGV[1]), tonumber(ARGV[2])
for n = 3, #ARGV do
    local task = read(ARGV[n])
    if task and task.lane then
        local wait = math.max(tonumber(task.due_ms) - tonumber(task.published_ms), 1)
        wait = task.parked and wait or 2 * wait
        task.parked = nil
        task.published_ms, task.due_ms = ARGV[1], millis(now + math.min(wait, longest))
        write(ARGV[n], task)
    end
end
extend_ttl(WEEK_MS)
return 1
