-- ARGV: task key, holder, 1 if the attempt counts, reason of the retry ('' if none) -> attempts
if not is_complete() then
    return 0
end
local task = read(ARGV[1])
if not task then
    return 0
end
if task.holder == ARGV[2] then
    task.holder, task.until_ms = nil, nil
    task.attempts = task.attempts + tonumber(ARGV[3])
    task.retry = ARGV[4]
    write(ARGV[1], task)
end
return task.attempts
